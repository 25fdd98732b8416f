"""What a server's log says while it serves, and when something is wrong."""

from collections.abc import Mapping
from dataclasses import field

from tui.facts.base import Fact, LogFact
from tui.frozen import frozen


@frozen
class DecodeBatch(LogFact):
    """`Decode batch …`. `accept_len` counts the bonus token (>= 1.0). `accept_rate` changed meaning: never use it."""

    running: int | None = None
    queue: int | None = None
    tokens: int | None = None
    token_usage: float | None = None
    accept_len: float | None = None
    accept_rate: float | None = None
    gen_tok_s: float | None = None
    graph: bool | None = None
    more: Mapping[str, float] = field(default_factory=dict)  # swa/mamba/PD fields under SGLang's own names


@frozen
class PrefillBatch(LogFact):
    """`Prefill batch …`."""

    new_seq: int | None = None
    new_tokens: int | None = None
    cached_tokens: int | None = None
    token_usage: float | None = None
    running: int | None = None
    queue: int | None = None
    input_tok_s: float | None = None
    more: Mapping[str, float] = field(default_factory=dict)


@frozen
class Problem(LogFact):
    """A line that SGLang, torch, NCCL, argparse, uvicorn or the shell prints when something is wrong.

    `code` is one of `tui.sglang.problems.CODES`; `numbers` holds what the line measures (GiB, tokens, exit codes…).
    """

    code: str
    text: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@frozen
class Traceback(LogFact):
    """One Python traceback of one rank: lines `line`..`last_line`. `exception` None: the end was cut off.

    `chain` lists the exceptions it was raised from, oldest first, as "Type: message". `where` are its frames,
    outermost first, as "function (file:line)". `head_cut`: it does not start with "Traceback".
    """

    last_line: int
    exception: str | None
    message: str
    chain: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    head_cut: bool = False


@frozen
class Shutdown(LogFact):
    """An orderly stop is under way (SIGTERM/SIGINT lines, draining, `kill_process_tree called`)."""

    text: str
    remaining_requests: int | None = None


@frozen
class LogTail(Fact):
    """How far the log was read: `lines` so far, `bytes` so far. `at` is when it was seen to grow."""

    lines: int
    bytes: int
    reset: str | None = None  # "rotated", "truncated", "replaced", "vanished"
    error: str | None = None
