"""NCCL, Gloo and the rendezvous; told apart from the noise that peers of a dead rank make."""

from tui.facts import Verdict
from tui.patterns import lazy
from tui.sglang.diagnosis.case import Case, Incident
from tui.sglang.diagnosis.making import LIKELY, Recogniser, verdict

_CODES = ("nccl-error", "gloo-error", "store-error", "dns-failed", "nccl-timeout", "nccl-warn")
_PEER = lazy(
    r"onnection (?:was )?(?:closed|reset)|remote process exited|ncclRemoteError|Broken pipe|sendBytes failed|recvBytes"
    r"|recv(?:Value)? failed|Socket closed"
)
_HINTS = {
    "dns-failed": ("A host name could not be resolved", "check --dist-init-addr and the container's DNS"),
    "gloo-error": (
        "Gloo could not connect the ranks",
        "set GLOO_SOCKET_IFNAME (and NCCL_SOCKET_IFNAME) to the interface that the ranks share",
    ),
    "store-error": (
        "The ranks did not find each other",
        "check --dist-init-addr, its port and firewalls, and that every node was started",
    ),
    "nccl-timeout": (
        "A collective operation timed out",
        "one rank did not take part: look which one is missing, with NCCL_DEBUG=INFO, and what it was doing",
    ),
    "nccl-error": (
        "NCCL failed",
        "run with NCCL_DEBUG=INFO; check interfaces (NCCL_SOCKET_IFNAME), /dev/shm, the driver, peer access",
    ),
    "nccl-warn": ("NCCL failed", "run with NCCL_DEBUG=INFO and look at the first warning"),
}


def is_noise(incident: Incident) -> bool:
    """The words of a process whose peer went away: somebody else died first."""
    if "peer-closed" in incident.codes:
        return True
    return bool(incident.codes & set(_CODES)) and _PEER.search(incident.text) is not None


def network(incident: Incident, case: Case) -> Verdict | None:
    """The ranks could not talk to each other."""
    problem = incident.first(*_CODES)
    if problem is None or is_noise(incident):
        return None
    title, what = _HINTS[problem.code]
    return verdict(
        "network",
        incident,
        *_CODES,
        title=title,
        why=f"No other failure came before it in this log. What to do: {what}.",
        confidence=LIKELY,
    )


RECOGNISERS: tuple[Recogniser, ...] = (network,)
