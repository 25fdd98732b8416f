"""The server's port, or one of its internal ones, is taken."""

from tui.facts import Fix, Verdict
from tui.patterns import lazy
from tui.sglang.diagnosis.case import Case, Incident
from tui.sglang.diagnosis.making import LIKELY, Recogniser, verdict, whole

_ADDRESS = lazy(r"\('[^']{0,80}', (\d{1,5})")
_PORT = lazy(r"[Pp]ort\D{0,12}(\d{2,5})\b")
_ANY = lazy(r":(\d{4,5})\b")


def port_in_use(incident: Incident, case: Case) -> Verdict | None:
    """Somebody listens there already. SGLang binds last, after everything is loaded."""
    problem = incident.first("port-in-use", "port-forbidden")
    if problem is None:
        return None
    match = _ADDRESS.search(problem.text) or _PORT.search(problem.text) or _ANY.search(problem.text)
    port = int(match[1]) if match else whole(case.value("port"))
    shown = f" {port}" if port is not None else ""
    internal = "store-error" in incident.codes or (match is None and "TCPStore" in incident.text)
    if problem.code == "port-forbidden":
        title = f"The address or port{shown} may not be used"
        why = "The address is none of this machine's, or the port is below 1024 and needs a privilege."
        return verdict("port-in-use", incident, problem.code, title=title, why=why, confidence=LIKELY)
    title = f"Port{shown} is taken" + (" (an internal one: rendezvous)" if internal else "")
    why = "Another program listens there. " + (
        "The ranks' rendezvous needs it: choose another with --nccl-port or --dist-init-addr."
        if internal
        else "SGLang notices only after loading. When the other program is an SGLang too, this log may even "
        "say 'fired up "
        "and ready to roll': the other one answered the warm-up. Choose another port, or stop what holds this one "
        "(`ss -ltnp`)."
    )
    knob = "nccl-port" if internal else "port"
    known = whole(case.value("port"))
    fix = None
    if port is not None and 1023 < port < 65535 and (internal or known is None or known == port):
        old = case.old(knob) if case.knobs is not None else port
        fix = Fix(knob=knob, old=old, new=port + 1, why="the next one; whether it is free the log cannot tell")
    numbers = {} if port is None else {"port": float(port)}
    return verdict("port-in-use", incident, "port-in-use", title=title, why=why, numbers=numbers, fixes=(fix,))


RECOGNISERS: tuple[Recogniser, ...] = (port_in_use,)
