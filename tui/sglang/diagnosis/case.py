"""What is known about one life of a server when something goes wrong; recognisers read it, `doctor` fills it."""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from tui.facts import Evidence, Exited, Problem, Traceback
from tui.frozen import frozen
from tui.patterns import lazy
from tui.sglang.versions import Version

_EXCEPTION = lazy(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Failure): ?|^Exception: ")


class When(StrEnum):
    """What a rank was doing; the text goes into sentences: "while …"."""

    LAUNCH = "the command line and the model's configuration were read"
    RANKS = "the ranks were set up"
    LOAD = "the weights were loaded"
    DRAFT_LOAD = "the draft's weights were loaded"
    POOL = "the KV pool was allocated"
    DRAFT_POOL = "the draft's KV pool was allocated"
    WORKSPACE = "attention workspaces were allocated"
    CAPTURE = "CUDA graphs were captured"
    WARMUP = "the server warmed up"
    SERVING = "the server was serving"
    UNKNOWN = "the log does not say what was going on"


@frozen
class Seen:
    """A problem or traceback with the moment it came in."""

    fact: Problem | Traceback
    when: When
    stopping: bool = False  # an orderly stop was under way


@frozen
class Incident:
    """One thing that went wrong on one rank: a traceback with the problems inside it, or a problem alone."""

    line: int
    last_line: int
    rank: str | None
    problems: tuple[Problem, ...]
    trace: Traceback | None
    when: When

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(problem.code for problem in self.problems)

    @property
    def marked(self) -> bool:
        """SGLang itself says that a process ends with this."""
        return "process-exception" in self.codes

    @property
    def raised(self) -> bool:
        """It is an exception, not a mention."""
        return self.trace is not None or any(_EXCEPTION.match(problem.text) for problem in self.problems)

    @property
    def text(self) -> str:
        """Every word of it: problem texts, the exception, the chain."""
        parts = [problem.text for problem in self.problems]
        if self.trace is not None:
            parts += [self.trace.exception or "", self.trace.message, *self.trace.chain]
        return "\n".join(parts)

    @property
    def frames(self) -> str:
        return "\n".join(self.trace.where) if self.trace is not None else ""

    def first(self, *codes: str) -> Problem | None:
        """The first problem with one of these codes."""
        return next((problem for problem in self.problems if problem.code in codes), None)

    def title(self) -> str:
        """The exception's own line, or the problem's."""
        trace = self.trace
        if trace is not None and trace.exception is not None:
            head = trace.message.split("\n", 1)[0]
            return f"{trace.exception}: {head}" if head else trace.exception
        said = [problem for problem in self.problems if problem.code != "process-exception"]
        return (said or self.problems)[0].text.split("\n", 1)[0] if self.problems else "a traceback without its end"

    def evidence(self, *codes: str) -> tuple[Evidence, ...]:
        """The lines that say it: the problems of these codes, or the exception."""
        lines = {problem.line: problem.text for problem in self.problems if problem.code in codes}
        if not lines and self.trace is not None and self.trace.exception is not None:
            lines = {max(self.line, self.trace.last_line - self.trace.message.count("\n")): self.title()}
        if not lines:
            lines = {problem.line: problem.text for problem in self.problems[:2]}
        return tuple(Evidence(line=line, text=shorten(text)) for line, text in sorted(lines.items())[:3])


@frozen
class RankMemory:
    """GiB that a rank logged: `before` the weights, `left` when its target pool was sized."""

    before: float | None = None
    base: float | None = None
    left: float | None = None
    left_line: int | None = None
    left_used: float | None = None
    kv_gib: float | None = None
    kv_tokens: int | None = None
    model_class: str | None = None
    free: float | None = None
    sized: bool = False  # the pool lines were seen: later weights are a draft's

    def change(self, **values: Any) -> "RankMemory":
        return replace(self, **values)


@frozen
class Case:
    """A life as far as it is known. `knobs`: what the launch gave, names with dashes; None when it is not known."""

    version_least: Version | None = None
    version_most: Version | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    knobs: Mapping[str, Any] | None = None
    memory: Mapping[str, RankMemory] = field(default_factory=dict)
    incidents: tuple[Incident, ...] = ()
    max_total_num_tokens: int | None = None
    max_running_requests: int | None = None
    ready: bool = False
    served: bool = False
    exited: Exited | None = None
    stop_text: str = ""  # the first line of an orderly stop
    stop_line: int = 0
    last_line: int = 0  # the last one that said anything
    forced_stop: tuple[int, str] | None = None  # SIGTERM found the scheduler dead
    gpus_total_gib: tuple[float, ...] = ()

    def at_least(self, major: int, minor: int, patch: int) -> bool | None:
        """Whether SGLang is that new; None when the log and the launch do not tell."""
        if self.version_least is not None and self.version_least.at_least(major, minor, patch):
            return True
        if self.version_most is not None and self.version_most.before(major, minor, patch):
            return False
        return None

    def value(self, *names: str) -> Any:
        """The value in force of a knob by its names with dashes, newest first: given, else resolved. None: unknown."""
        for name in names:
            if self.knobs is not None and self.knobs.get(name) is not None:
                return self.knobs[name]
        for name in names:
            found = self.args.get(name.replace("-", "_"))
            if found is not None:
                return found
        return None

    def old(self, name: str) -> Any:
        """The value that a fix replaces: as given on the command line where that is known."""
        if self.knobs is not None:
            return self.knobs.get(name)
        return self.args.get(name.replace("-", "_"))

    @property
    def speculative(self) -> str | None:
        found = self.value("speculative-algorithm")
        return found if isinstance(found, str) and found else None


def shorten(text: str, most: int = 300) -> str:
    """One line of bounded length."""
    line = text.replace("\n", " ").strip()
    return line if len(line) <= most else line[: most - 1] + "…"
