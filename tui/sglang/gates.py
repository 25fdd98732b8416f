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
_LENGTH = 12

# Words without a rule or reader: an exception of any name, a frame, a title-less progress bar, a version told outright.
_OTHERS = (
    "Error",
    "Exception",
    "Interrupt",
    "Traceback (most",
    'File "',
    "%|",
    "server_args=",
    "sglang==",
    "sglang: ",
    "Using KV cache dtype",
)


def _cost(fragment: str) -> int:
    rarity = len(_BY_FREQUENCY) - _BY_FREQUENCY.find(fragment[0]) if fragment[0] in _BY_FREQUENCY else 0
    return rarity + 15 * max(0, 7 - len(fragment))


def _fragment(needle: str) -> str:
    return min((needle[start:][:_LENGTH] for start in range(max(1, len(needle) - 2))), key=_cost)


def _alternation(needles: Iterable[str]) -> str:
    fragments = {_fragment(needle) for needle in needles}
    by_letter: dict[str, list[str]] = defaultdict(list)
    for fragment in sorted(fragments):
        if not any(other != fragment and other in fragment for other in fragments):
            by_letter[fragment[0]].append(re.escape(fragment[1:]))
    return "|".join(f"{re.escape(letter)}(?:{'|'.join(tails)})" for letter, tails in sorted(by_letter.items()))


_PATTERN = _alternation([*(rule.needle for rule in RULES), *(needle for needle, _ in READERS), *_OTHERS])
# Whether a line may say something. Both forms ask the same of a line.
GATE = re.compile(_PATTERN).search
GATE_BYTES = re.compile(_PATTERN.encode()).search
