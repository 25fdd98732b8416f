"""Throughput as it happens: decode lines, /v1/loads and /metrics become one current load and the points of the plot."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tui.facts import DecodeBatch, Loads, Metrics, PrefillBatch
from tui.frozen import frozen
from tui.snapshot import Point

# An endpoint that spoke this recently is believed over the log, whose lines come once in --decode-log-interval steps.
FRESH_S = 5.0
MOST_POINTS = 4096


@frozen
class Load:
    """The load of one DP rank, or the sum of all: tokens per second, accept length, pool usage 0..1, requests."""

    gen_tok_s: float | None = None
    accept_len: float | None = None
    token_usage: float | None = None
    running: int | None = None
    queue: int | None = None


def total(loads: Iterable[Load | DecodeBatch]) -> Load:
    """The whole server's load: speeds and requests add up, pool usage is the fullest rank's, accept length the mean."""
    all_ = tuple(loads)
    accepts = [load.accept_len for load in all_ if load.accept_len is not None]
    return Load(
        gen_tok_s=_sum(load.gen_tok_s for load in all_),
        accept_len=sum(accepts) / len(accepts) if accepts else None,
        token_usage=max((u for load in all_ if (u := load.token_usage) is not None), default=None),
        running=_whole(_sum(load.running for load in all_)),
        queue=_whole(_sum(load.queue for load in all_)),
    )


class LoadFold:
    """Folds load facts. The newest fresh endpoint wins over the log; both are kept per DP rank."""

    def __init__(self) -> None:
        self._log: dict[str, Load | DecodeBatch] = {}
        self._endpoint: dict[int, Load] = {}
        self._endpoint_at: float | None = None
        self._gauges: dict[int, Load] = {}
        self._points: list[Point] = []
        self._due: float | None = None  # the time of decode lines from which no point was made yet

    @property
    def points(self) -> list[Point]:
        """The plot so far: a point a second, the older half thinner."""
        self._make_due()
        return self._points

    @property
    def ranks(self) -> int:
        """DP ranks that tell their own load."""
        return max(1, len(self._endpoint), len(self._gauges))

    def reset(self) -> None:
        """A new launch: the old server's load is gone, its points stay on the plot."""
        self._make_due()
        self._log.clear()
        self._endpoint.clear()
        self._gauges.clear()
        self._endpoint_at = None

    def decode(self, fact: DecodeBatch) -> None:
        # A flood of lines makes one point a second, from what they say at its end.
        if self._due is not None and int(self._due) != int(fact.at):
            self._make_due()
        self._log[fact.rank or ""] = fact
        if not self._endpoint_is_fresh(fact.at):
            self._due = fact.at

    def prefill(self, fact: PrefillBatch) -> None:
        rank = fact.rank or ""
        self._log[rank] = replace(self._log.get(rank, Load()), running=fact.running, queue=fact.queue)

    def loads(self, fact: Loads) -> None:
        self._make_due()
        self._endpoint_at = fact.at
        self._endpoint = {
            load.dp_rank: Load(
                gen_tok_s=load.gen_tok_s,
                accept_len=self._accept_len(load.dp_rank, load.gen_tok_s),
                token_usage=load.token_usage,
                running=load.running,
                queue=load.waiting,
            )
            for load in fact.loads
        }
        self._point(fact.at)

    def metrics(self, fact: Metrics) -> None:
        self._make_due()
        for rank in fact.ranks:
            if "gen_throughput" in rank.values:
                self._gauges[rank.dp_rank or 0] = _gauges(rank.values)
        if self._gauges and not self._endpoint_is_fresh(fact.at):
            self._point(fact.at)

    def now(self, at: float) -> Load:
        """The load at time `at`: a fresh endpoint, else the metrics' gauges, else the last decode lines."""
        if self._endpoint_is_fresh(at):
            return total(self._endpoint.values())
        if self._gauges:
            return total(self._gauges.values())
        return total(self._log.values())

    def _accept_len(self, dp_rank: int, gen_tok_s: float | None) -> float | None:
        """/v1/loads gives a lifetime mean, so the last interval's value of the gauge or the log is taken instead."""
        if not gen_tok_s:
            return None
        gauge = self._gauges.get(dp_rank)
        if gauge is not None and gauge.accept_len is not None:
            return gauge.accept_len
        names = ("", f"DP{dp_rank}", f"DP{dp_rank} TP{dp_rank}", f"DP{dp_rank} TP0", "TP0")
        return next((load.accept_len for name in names if (load := self._log.get(name)) is not None), None)

    def _endpoint_is_fresh(self, at: float) -> bool:
        return self._endpoint_at is not None and abs(at - self._endpoint_at) <= FRESH_S

    def _make_due(self) -> None:
        due, self._due = self._due, None
        if due is not None:
            self._point(due)

    def _point(self, at: float) -> None:
        load = self.now(at)
        point = Point(
            at=at,
            gen_tok_s=load.gen_tok_s,
            accept_len=load.accept_len,
            token_usage=load.token_usage,
            running=load.running,
            queue=load.queue,
        )
        if self._points and int(self._points[-1].at) == int(at):
            self._points[-1] = point
        elif not self._points or at > self._points[-1].at:
            self._points.append(point)
        if len(self._points) > MOST_POINTS:
            self._points = thin(self._points)


def thin(points: list[Point]) -> list[Point]:
    """Half as many points in the older half: memory stays bounded, and the recent past keeps its detail."""
    middle = len(points) // 2
    return points[:middle:2] + points[middle:]


def _gauges(values: Mapping[str, float]) -> Load:
    accept = values.get("spec_accept_length")
    return Load(
        gen_tok_s=values.get("gen_throughput"),
        accept_len=accept if accept else None,  # the gauge reads 0 without speculation
        token_usage=values.get("token_usage"),
        running=_whole(values.get("num_running_reqs")),
        queue=_whole(values.get("num_queue_reqs")),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
