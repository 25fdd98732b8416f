"""Which versions of SGLang print a line in this form (sglang-facts 2): a log seldom says its version outright."""

import re

from tui.facts import VersionHint
from tui.patterns import lazy

# (what the message must hold, what it must not hold, oldest version, newest version, why)
_FORMS: tuple[tuple[str, str, str | None, str | None, str], ...] = (
    ("server_args=ServerArgs(", "", None, "0.5.18", "server_args printed as ServerArgs(…)"),
    ("server_args={", "", "0.5.19", None, "server_args printed as a dict"),
    ("Init torch distributed ends. mem usage", "", None, "0.5.8", "distributed init without elapsed time"),
    ("Init torch distributed ends. elapsed", "", "0.5.9", "0.5.20", "distributed init with elapsed time"),
    ("Init torch distributed begin", "", None, "0.5.20", "'Init torch distributed begin'"),
    ("Init parallel", "", "0.5.21", None, "'Init parallel'"),
    ("Memory baseline taken", "", "0.5.21", None, "'Memory baseline taken'"),
    ("Load weight end. type=", "", None, "0.5.8", "weights line without elapsed time"),
    ("Load weight end. elapsed=", ", dtype=", "0.5.10", None, "weights line with elapsed time and no dtype"),
    ("Using KV cache dtype", "", "0.5.3", "0.5.12", "'Using KV cache dtype'"),
    ("KV Cache is allocated. dtype", "", "0.5.13", None, "KV pool line with dtype"),
    ("KV Cache is allocated. #tokens", "", None, "0.5.12", "KV pool line without dtype"),
    ("KV Cache VA upper bound", "", "0.5.17", None, "pool as an upper bound"),
    ("Post-capture", "", "0.5.16", None, "pool sized after the graphs"),
    ("Capture cuda graph begin", "", None, "0.5.13", "'Capture cuda graph begin'"),
    ("Capture draft cuda graph", "", None, "0.5.13", "'Capture draft cuda graph'"),
    ("Capture draft extend cuda graph", "", "0.4.7", "0.5.13", "'Capture draft extend cuda graph'"),
    ("Capture piecewise CUDA graph", "", "0.5.6", "0.5.13", "piecewise graph line"),
    ("num_tokens_per_bs=", "", "0.5.14", "0.5.15", "graph line with num_tokens_per_bs"),
    ("CUDA graph begin. backend=", "", "0.5.14", None, "graph line with backend"),
    ("CUDA graph end. ", "Time elapsed", "0.5.14", None, "graph line with elapsed="),
    (", available_gpu_mem=", "", "0.5.2", None, "summary with available_gpu_mem"),
    ("Decode batch. ", "", None, "0.5.3", "'Decode batch.'"),
    ("Decode batch,", "", "0.5.4", None, "'Decode batch,'"),
    ("accept rate: ", "", "0.5.3", None, "accept rate in the decode line"),
    ("#pending-token: ", "", "0.5.11", None, "#pending-token in the prefill line"),
    ("Loaded weights leave no GPU memory", "", "0.5.14", None, "the refusal names the floor"),
    ("Current value: self.server_args.mem_fraction_static", "", "0.5.3", "0.5.9", "the refusal names the fraction"),
    ("Current value: mem_fraction_static", "", "0.5.10", None, "the refusal names the fraction, short form"),
    (" Watchdog timeout (self.", "", None, "0.5.6", "'Watchdog timeout'"),
    ("self.soft=", "", "0.5.7", None, "watchdog line with soft"),
    ("scheduler is dead. Please check", "", None, "0.5.9", "'scheduler is dead'"),
    ("scheduler died during initialization", "", "0.5.10", None, "'scheduler died during initialization'"),
    ("crashed with exit code", "", "0.5.10", None, "subprocess watchdog"),
    ("SIGQUIT received. signum", "", "0.5.3", None, "'SIGQUIT received'"),
    ("kill_process_tree called", "", "0.5.13", None, "'kill_process_tree called'"),
)
_EXACT = lazy(
    r"(?:\bsglang(?: version)?(?::|==| )\s*v?)(0\.\d{1,3}\.\d{1,3}(?:\.?(?:post|rc|dev)\d{1,4})?)\b", re.IGNORECASE
)


class Hinter:
    """Gives each form's hint once; a log repeats the forms a million times."""

    def __init__(self) -> None:
        self._left = list(_FORMS)

    def hints(self, message: str, at: float, line: int, rank: str | None) -> list[VersionHint]:
        """The hints of a message that were not given before."""
        found = [form for form in self._left if form[0] in message and not (form[1] and form[1] in message)]
        if not found:
            return []
        self._left = [form for form in self._left if form not in found]
        return [
            VersionHint(at=at, line=line, rank=rank, at_least=oldest, at_most=newest, why=why)
            for _, _, oldest, newest, why in found
        ]


def exact_version(message: str, at: float, line: int, rank: str | None) -> VersionHint | None:
    """A version told outright, as `pip list` or SGLang's own environment report print it."""
    match = _EXACT.search(message)
    if match is None:
        return None
    return VersionHint(at=at, line=line, rank=rank, at_least=match[1], at_most=match[1], why=f"the log says {match[0]}")
