"""What the throughput of now is worth: against the pinned baseline, and with speculation against without. Pure."""

from dataclasses import asdict

from tui.facts import Fact, PastSpeeds
from tui.session.samples import SampleFold
from tui.sglang.economics import NOT_ENOUGH, BatchSpeed, Economy, judge, turns_over


class WorthFold:
    """Folds the samples of the server on the screen and what earlier runs measured."""

    def __init__(self) -> None:
        self._samples = SampleFold()
        self._past: dict[str, dict[int, BatchSpeed]] = {}
        self._told = False

    def reset(self) -> None:
        """A launch: another server's samples. What it is compared with is told anew before each launch."""
        self._samples = SampleFold()

    def apply(self, fact: Fact) -> None:
        if isinstance(fact, PastSpeeds):
            self._told = self._told or fact.role == "plain"
            self._past[fact.role] = {one.batch: BatchSpeed(**asdict(one)) for one in fact.speeds}
        else:
            self._samples.apply(fact)

    def baseline_tok_s(self, running: int | None, ranks: int = 1) -> float | None:
        """Tokens per second of the baseline while as many requests ran on each of `ranks` DP ranks; None: not known."""
        if not running:
            return None
        found = self._past.get("baseline", {}).get(round(running / ranks))
        return None if found is None else found.tok_s * ranks

    def economy(self, running: int | None, ranks: int = 1) -> str:
        """Whether speculation pays at the batch size of now, or else at the nearest one that can be told."""
        plain, spec = self._past.get("plain", {}), self._samples.speeds()
        if not plain:
            return (
                "Whether speculation pays is not known: launch this model once without it, to compare."
                if self._told
                else ""
            )
        found = [judge(batch, plain.get(batch), spec.get(batch)) for batch in sorted(spec)]
        told = [one for one in found if one.verdict != NOT_ENOUGH]
        if not found:
            return "Whether speculation pays is not known yet: nothing was decoded long enough to measure."
        wanted = round((running or 0) / ranks) or found[-1].batch
        one = min(told or found, key=lambda one: abs(one.batch - wanted))
        return _sentence(one, found)


def _sentence(one: Economy, found: list[Economy]) -> str:
    over = turns_over(found)
    words = one.text if one.verdict != NOT_ENOUGH else f"Not enough data to tell whether speculation pays. {one.text}"
    return words if over is None else f"{words} It turns over at about batch {over:.0f}."
