"""One record of an SGLang log -> facts: a pure function of the record; `tui.sglang.grammar` has the state.

Lines that no one knows give nothing: they are text, and stay in the log.
"""

from tui.facts import LogFact
from tui.sglang.problems import recognise
from tui.sglang.serving_lines import read_decode, read_prefill
from tui.sglang.startup_lines import read_startup


def read_record(message: str, at: float, line: int, rank: str | None) -> list[LogFact]:
    """The facts of a record's message (without its stamp), in the order in which the message says them."""
    if message.startswith("Decode batch"):
        decode = read_decode(message, at, line, rank)
        return [decode] if decode else []
    if message.startswith("Prefill batch"):
        prefill = read_prefill(message, at, line, rank)
        return [prefill] if prefill else []
    startup = read_startup(message, at, line, rank)
    if startup:
        return startup
    return [*recognise(message, at, line, rank)]
