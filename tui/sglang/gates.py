"""The quick test that keeps unknown lines cheap: may any recogniser want this line?

It is made from the recognisers' own needles, so it cannot fall behind them. `re` skips the positions whose letter
starts no alternative, so of each needle the fragment that starts with the rarest letter is taken.
"""

import re
from collections import defaultdict
from collections.abc import Iterable

from tui.sglang.problems import RULES
from tui.sglang.startup_lines import READERS

# Letters of SGLang's logs, the most frequent first (counted in logs of 0.5.23); any other letter is rarer.
_BY_FREQUENCY = " e1atnr2o:0silg-.udcpm_h36,9'b[]5/k47fTOqI=w#v8FNPyD\"G()xECHUjKBLSRAz"
_RARE, _RARER = _BY_FREQUENCY.index("b"), _BY_FREQUENCY.index("k")
_LENGTH = 12

# Words without a rule or reader: an exception of any name, a frame, progress bars, a version told outright.
_OTHERS = (
    "Error",
    "Exception",
    "Interrupt",
    "Traceback (most",
    'File "',
    "%",
    "server_args=",
    "sglang==",
    "Using KV cache",
)


def _cost(fragment: str) -> int:
    """Prefers a rare first letter; a fragment shorter than seven letters would match too much."""
    rank = _BY_FREQUENCY.find(fragment[0])
    frequent = 0 if rank < 0 else 150 if rank < _RARE else 40 if rank < _RARER else 10
    return frequent + 15 * max(0, 7 - len(fragment))


def _fragment(needle: str) -> str:
    return min((needle[start:][:_LENGTH] for start in range(max(1, len(needle) - 2))), key=_cost)


def _alternation(needles: Iterable[str]) -> str:
    fragments = {_fragment(needle) for needle in needles}
    by_letter: dict[str, list[str]] = defaultdict(list)
    for fragment in sorted(fragments):
        if not any(other != fragment and other in fragment for other in fragments):
            by_letter[fragment[0]].append(re.escape(fragment[1:]))
    return "|".join(f"{re.escape(letter)}(?:{'|'.join(tails)})" for letter, tails in sorted(by_letter.items()))


# A shard bar is known by its percentage.
_NEEDLES = (
    *(rule.needle for rule in RULES if not rule.exception),
    *(needle for needle, _ in READERS if needle != "shards"),
    *_OTHERS,
)
_PATTERN = _alternation(_NEEDLES)
# Whether a line may say something. Both forms ask the same of a line.
GATE = re.compile(_PATTERN).search
GATE_BYTES = re.compile(_PATTERN.encode()).search
