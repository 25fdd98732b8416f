"""The quick test that keeps unknown lines cheap: may any recogniser want this line?

It is made from the recognisers' own needles, so it cannot fall behind them. `re` skips the positions whose letter
starts no alternative, so of each needle the fragment that starts with the rarest letter is taken.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache

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


def _letter_cost(letter: str) -> int:
    rank = _BY_FREQUENCY.find(letter)
    return 0 if rank < 0 else 150 if rank < _RARE else 40 if rank < _RARER else 10


_LETTER_COSTS = {letter: _letter_cost(letter) for letter in _BY_FREQUENCY}


def _fragment(needle: str) -> str:
    """Begins with a rare letter where it can; a fragment shorter than seven letters would match too much."""
    _, start = min(
        (_LETTER_COSTS.get(needle[start], 0) + 15 * max(0, 7 - len(needle) + start), start)
        for start in range(max(1, len(needle) - 2))
    )
    return needle[start : start + _LENGTH]


def _alternation(needles: Iterable[str]) -> str:
    fragments = {_fragment(needle) for needle in needles}
    together = "\n".join(fragments)
    # What holds another fragment is found by that one.
    inner = [fragment for fragment in fragments if together.count(fragment) > 1]
    by_letter: dict[str, list[str]] = defaultdict(list)
    for fragment in sorted(fragments):
        if not any(other in fragment and other != fragment for other in inner):
            by_letter[fragment[0]].append(re.escape(fragment[1:]))
    return "|".join(f"{re.escape(letter)}(?:{'|'.join(tails)})" for letter, tails in sorted(by_letter.items()))


@cache
def _pattern() -> str:
    return _alternation(
        (
            *(rule.needle for rule in RULES if not rule.exception),
            *(needle for needle, _ in READERS if needle != "shards"),  # a shard bar is known by its percentage
            *_OTHERS,
        )
    )


@cache
def gate() -> Callable[[str], object]:
    """Tells whether a line may say something. It takes milliseconds to make, so it is made when it is first asked."""
    return re.compile(_pattern()).search


@cache
def gate_bytes() -> Callable[[bytes], object]:
    """The same question, of a line's bytes."""
    return re.compile(_pattern().encode()).search
