"""It ended, and the text does not hold the cause: what the end itself says, and where to look next."""

import signal

from tui.facts import Evidence, Exited, Verdict
from tui.sglang.diagnosis.case import Case, Incident, shorten
from tui.sglang.diagnosis.making import LIKELY, UNKNOWN, verdict

_DEATHS = ("rank-died", "rank-dead", "subprocess-crashed", "process-terminated", "exit-code")
_KILL = -9
_HOW_TO_TELL = (
    "`dmesg -T | grep -i -E 'oom|killed process'` (or `journalctl -k`) names the victims of the kernel's OOM "
    "killer; in a "
    "container also look at its memory limit. Without an entry there somebody sent the signal."
)


def exception(incident: Incident) -> Verdict:
    """An exception that nothing here knows: its own words are the title."""
    trace = incident.trace
    cut = trace is not None and trace.exception is None
    title = "The log ends inside a traceback: the exception itself is missing" if cut else incident.title()
    where = f" It was raised in {trace.where[-1]}." if trace is not None and trace.where else ""
    why = (
        f"This exception ended the process while {incident.when.value}.{where} What it comes from is not in the text. "
    )
    if cut:
        why = "Get the rest of the log: the last line of the traceback says what happened. "
    why += "Search SGLang's issues for the exception's line, and look at the logs of the other ranks and nodes."
    return verdict("unknown", incident, title=title, why=why, confidence=UNKNOWN)


def death(incident: Incident, case: Case) -> Verdict | None:
    """A process vanished without a word of its own; the exit code is what is left."""
    codes = [p.numbers["exit_code"] for p in incident.problems if "exit_code" in p.numbers]
    if not codes and not incident.codes & set(_DEATHS):
        return None
    code = int(codes[0]) if codes else None
    who = _who(incident)
    numbers = {} if code is None else {"exit_code": float(code)}
    serving = case.ready or case.served or "subprocess-crashed" in incident.codes
    if code == _KILL and not serving:
        return verdict(
            "host-memory",
            incident,
            *_DEATHS,
            title=f"{who} was killed while the server started (SIGKILL): most likely host memory ran out",
            why="Nothing of SGLang's own sends SIGKILL at this point; the kernel's OOM killer does, when "
            "loading takes more "
            "host memory than there is. " + _HOW_TO_TELL,
            confidence=LIKELY,
            numbers=numbers,
        )
    what, look = _reading(code)
    return verdict(
        "unknown",
        incident,
        *_DEATHS,
        title=f"{who} {what}",
        why=f"The log does not say why. {look}",
        confidence=UNKNOWN,
        numbers=numbers,
    )


def killed_while_loading(incident: Incident) -> Verdict:
    """The shell saw it killed, and SGLang had not begun to end itself."""
    return verdict(
        "host-memory",
        incident,
        "shell-killed",
        title="The server was killed while it loaded weights: most likely host memory ran out",
        why="No failure of SGLang's own precedes it, so it is not its kill_process_tree. " + _HOW_TO_TELL,
        confidence=LIKELY,
    )


def _who(incident: Incident) -> str:
    for problem in incident.problems:
        if problem.code == "subprocess-crashed" and "Subprocess " in problem.text:
            return problem.text.split("Subprocess ", 1)[1].split(" ", 1)[0].capitalize()
        if problem.code in ("rank-died", "rank-dead") and "rank" in problem.numbers:
            return f"The scheduler of rank {problem.numbers['rank']:.0f}"
    return "A process of the server"


def _reading(code: int | None) -> tuple[str, str]:
    """What an exit code says, and where to look next."""
    if code is None:
        return "died without a word", "Look at the log of that rank, and at dmesg. " + _HOW_TO_TELL
    if code == _KILL:
        return "was killed from outside (SIGKILL)", _HOW_TO_TELL
    if code == -3:
        return "was ended by SIGQUIT", (
            "SIGQUIT is what SGLang sends after a Python failure: the cause is an exception above, or in "
            "another rank's "
            "log. The sentence about -9 and the OOM killer is generic text."
        )
    if code == -11:
        return "crashed with a segmentation fault (SIGSEGV)", (
            "Run with PYTHONFAULTHANDLER=1 for the stack, look at dmesg and at core dumps; native libraries "
            "that do not "
            "fit together are the usual reason."
        )
    if code == -6:
        return "aborted (SIGABRT)", (
            "A native library gave up, often NCCL's watchdog or a C++ exception: its last words are on stderr; "
            "run with "
            "NCCL_DEBUG=INFO."
        )
    if code == -7:
        return (
            "crashed with a bus error (SIGBUS)",
            "Shared memory that is too small does that: look at `df -h /dev/shm`.",
        )
    if code < 0:
        return f"was ended by {_signal(-code)}", "Look for who sent it: a supervisor, a time limit, a person."
    return f"ended with exit code {code}", "Its exception is on its own stderr or in another rank's log."


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def noise(incident: Incident) -> Verdict:
    """Only the words of peers are here."""
    return verdict(
        "unknown",
        incident,
        "peer-closed",
        "nccl-error",
        "gloo-error",
        "store-error",
        title="A peer closed its connection: another rank or node died first",
        why="These lines are what the surviving ranks print when one of them goes away. The cause is in the "
        "log of the rank "
        "or node that went first, or in its dmesg; NCCL_DEBUG=INFO shows which one it was.",
        confidence=UNKNOWN,
    )


def ended(incident: Incident) -> Verdict:
    """SGLang says that it failed, and nothing above says why."""
    return verdict(
        "unknown",
        incident,
        title="The server ended, and this log does not say why",
        why="SGLang's own words point to something above that this text does not hold: look further up, at the other "
        "ranks' and nodes' logs, and at dmesg. " + _HOW_TO_TELL,
        confidence=UNKNOWN,
    )


def exited(fact: Exited, case: Case) -> Verdict:
    """The process ended and the log says nothing at all."""
    moment = "while it was serving" if case.ready else "before it was ready"
    code = fact.code
    if code is not None and code < 0:
        name: str | None = _signal(-code)
    else:
        name = fact.signal
    killed = name in ("SIGKILL", "9", "KILL") or code == 137
    how = f"by {name}" if name else f"with exit code {code}" if code is not None else "in an unknown way"
    if killed:
        look = (
            "137, or SIGKILL, is what SGLang's own kill_process_tree leaves behind after any failure, and "
            "also the kernel's "
        )
        look += (
            "OOM killer. To tell them apart: a 'kill_process_tree called' or 'sigquit' line in the log "
            "means the former. "
        )
        look += _HOW_TO_TELL
    elif name == "SIGSEGV" or code == 139:
        look = "A segmentation fault: run with PYTHONFAULTHANDLER=1, look at dmesg and core dumps."
    elif name in ("SIGTERM", "SIGHUP", "SIGINT"):
        look = "Somebody or something asked it to end: a supervisor, a closed terminal, a time limit."
    else:
        look = "Look at the end of the log and at the terminal or service log that it was started from."
    numbers = {} if code is None else {"exit_code": float(code)}
    return Verdict(
        kind="unknown",
        title=f"The server ended {how} {moment}, and the log does not say why",
        why=look,
        confidence=UNKNOWN,
        evidence=(Evidence(line=case.stop_line, text=shorten(case.stop_text)),) if case.stop_text else (),
        numbers=numbers,
    )
