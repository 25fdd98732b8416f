"""What a log says about a server that serves when it ends: a full pool, or speculation that does not pay."""

from collections import deque

from tui.facts import DecodeBatch, Evidence, Problem, Verdict
from tui.sglang.diagnosis.case import shorten
from tui.sglang.diagnosis.making import LIKELY

_FULL = 0.995
_FULL_LINES = 3  # one after the other: a busy server touches the top now and then
_RETRACTIONS, _RETRACTED_S = 2, 60.0  # so many in the last seconds of the log
_LEAST_LINES, _LEAST_S = 20, 60.0
# Below this a step with a small draft and few draft tokens costs more than it brings.
_LEAST_ACCEPT_LEN = 1.3
_MOST = 512


class Serving:
    """Folds the last decode lines of each DP rank."""

    def __init__(self) -> None:
        self._last: dict[str, deque[DecodeBatch]] = {}
        self._retracted: deque[Problem] = deque(maxlen=_MOST)

    def apply(self, fact: DecodeBatch) -> None:
        """Fold one decode line in."""
        self._last.setdefault(fact.rank or "", deque(maxlen=_MOST)).append(fact)

    def retracted(self, fact: Problem) -> None:
        """Fold in that requests were thrown back into the queue."""
        self._retracted.append(fact)

    def verdict(self) -> Verdict | None:
        """A verdict on the last lines; None when they are as they should be."""
        return self._full() or self._thrown_back() or self._acceptance()

    def _full(self) -> Verdict | None:
        for lines in self._last.values():
            last = list(lines)[-_FULL_LINES:]
            if len(last) == _FULL_LINES and all((b.token_usage or 0.0) >= _FULL and b.queue for b in last):
                return _exhausted(last)
        return None

    def _thrown_back(self) -> Verdict | None:
        end = max((lines[-1].at for lines in self._last.values()), default=0.0)
        end = max(end, self._retracted[-1].at) if self._retracted else end
        recent = [fact for fact in self._retracted if end - fact.at <= _RETRACTED_S]
        if len(recent) < _RETRACTIONS:
            return None
        number = sum(fact.numbers.get("requests", 1.0) for fact in recent)
        return Verdict(
            kind="kv-exhausted",
            title=f"The KV pool is too small for the load: {number:.0f} requests were thrown back",
            why="The running requests grew until no KV token slot was left, so some lost their place and start again "
            "later. More KV (a higher fraction, a smaller KV data type), fewer requests at once, or a higher "
            "--schedule-conservativeness.",
            confidence=LIKELY,
            evidence=tuple(Evidence(line=fact.line, text=shorten(fact.text)) for fact in recent[-3:]),
            numbers={"retracted_requests": number, "retractions": float(len(recent))},
        )

    def _acceptance(self) -> Verdict | None:
        for lines in self._last.values():
            known = [b for b in lines if b.accept_len is not None and b.running]
            if len(known) < _LEAST_LINES or known[-1].at - known[0].at < _LEAST_S:
                continue
            mean = sum(b.accept_len or 0.0 for b in known) / len(known)
            if mean < _LEAST_ACCEPT_LEN:
                return _low(known, mean)
        return None


def _exhausted(last: list[DecodeBatch]) -> Verdict:
    now = last[-1]
    return Verdict(
        kind="kv-exhausted",
        title=f"The KV pool is full and {now.queue} requests wait",
        why=f"{now.running} running requests hold all KV token slots, so no other is let in, and some may be "
        "thrown back. "
        "More KV (a higher fraction, a smaller KV data type), fewer requests at once, or a shorter context.",
        confidence=LIKELY,
        evidence=tuple(
            Evidence(line=b.line, text=f"Decode batch: token usage {b.token_usage:.2f}, #queue-req {b.queue}")
            for b in last
        ),
        numbers={
            "token_usage": now.token_usage or 0.0,
            "queue": float(now.queue or 0),
            "running": float(now.running or 0),
        },
    )


def _low(known: list[DecodeBatch], mean: float) -> Verdict:
    return Verdict(
        kind="low-acceptance",
        title=f"Speculation hardly ever guesses right: {mean:.2f} tokens per step",
        why="Every step gives one token without speculation, and a speculative step costs more than a plain "
        "one. Another "
        "draft, fewer steps, or no speculation: compare the throughput with a run without it.",
        confidence=LIKELY,
        evidence=tuple(Evidence(line=b.line, text=f"Decode batch: accept len {b.accept_len:.2f}") for b in known[-3:]),
        numbers={"accept_len": round(mean, 4), "lines": float(len(known))},
    )
