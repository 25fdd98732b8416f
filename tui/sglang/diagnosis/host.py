"""Host memory, shared memory, disk, and GPUs that are shared or unequal."""

from tui.facts import Fix, Verdict
from tui.sglang.diagnosis.case import Case, Incident
from tui.sglang.diagnosis.making import LIKELY, UNKNOWN, Recogniser, gib, verdict


def host_cache(incident: Incident, case: Case) -> Verdict | None:
    """The hierarchical cache asks for more host memory than there is."""
    problem = incident.first("host-cache-refused")
    if problem is None:
        return None
    wanted, free = problem.numbers.get("wanted_gib"), problem.numbers.get("free_gib")
    had = f"It wants {gib(wanted)} and {gib(free)} is free. " if wanted is not None and free is not None else ""
    fix = None
    ratio = case.value("hicache-ratio")
    if isinstance(ratio, int | float) and wanted and free and ratio > 1:
        new = max(1.1, round(float(ratio) * 0.8 * free / wanted, 1))
        if new < ratio:
            why = "a smaller cache in host memory"
            fix = Fix(knob="hicache-ratio", old=case.old("hicache-ratio"), new=new, why=why)
    return verdict(
        "host-memory",
        incident,
        problem.code,
        title="The hierarchical cache does not fit into host memory",
        why=had + "Lower --hicache-ratio or --hicache-size, or leave the hierarchical cache out.",
        numbers=dict(problem.numbers),
        fixes=(fix,),
    )


def host_oom(incident: Incident, case: Case) -> Verdict | None:
    """Host memory ran out: the kernel or the allocator says so."""
    problem = incident.first("oom-killer", "host-oom")
    if problem is None:
        return None
    killer = problem.code == "oom-killer"
    return verdict(
        "host-memory",
        incident,
        problem.code,
        title="The kernel's OOM killer ended a process" if killer else "Host memory ran out",
        why="Host RAM, or the container's limit, was used up: page-locked weights, host caches, many loading ranks at "
        "once. The GPU's memory and the fraction play no part. More RAM or a higher container limit, fewer loading "
        "workers, no host caches or CPU offload.",
        confidence=LIKELY if killer else "certain",
    )


def shared_memory(incident: Incident, case: Case) -> Verdict | None:
    """/dev/shm ran out; a bus error is how a process finds out."""
    problem = incident.first("shm-too-small", "bus-error")
    if problem is None:
        return None
    return verdict(
        "network",
        incident,
        problem.code,
        title="Shared memory (/dev/shm) ran out",
        why="The ranks exchange data through /dev/shm, and a container gives it 64 MiB unless told otherwise: start it "
        "with --shm-size 16g or --ipc=host, and remove what dead servers left there.",
        confidence="certain" if problem.code == "shm-too-small" else LIKELY,
    )


def limits(incident: Incident, case: Case) -> Verdict | None:
    """Limits of the machine that are none of SGLang's."""
    problem = incident.first("disk-full", "too-many-files")
    if problem is None:
        return None
    disk = problem.code == "disk-full"
    return verdict(
        "unknown",
        incident,
        problem.code,
        title="The disk is full" if disk else "The limit on open files was reached",
        why="Free space where the checkpoint, the compile caches and /tmp are (`df -h`)."
        if disk
        else "Raise it with `ulimit -n 65536` before the launch, or LimitNOFILE= of the service.",
        confidence=UNKNOWN,
    )


def unequal_gpus(incident: Incident, case: Case) -> Verdict | None:
    """SGLang compared the ranks' free memory and refused."""
    problem = incident.first("gpu-unbalanced")
    if problem is None:
        return None
    least, local = problem.numbers.get("min_per_gpu_gib"), problem.numbers.get("local_gpu_gib")
    had = ""
    if least is not None and local is not None:
        had = f"One GPU has {gib(least)} free where this one has {gib(local)}, {gib(local - least)} less. "
    return verdict(
        "gpu-shared",
        incident,
        problem.code,
        title="Another process holds memory on one of the GPUs",
        why=had
        + "Every rank has to live with the least, so SGLang refuses. End the other process (`nvidia-smi` names it; "
        "a rank of an earlier server may be left), or start servers that share GPUs one after the other.",
        numbers=dict(problem.numbers),
    )


RECOGNISERS: tuple[Recogniser, ...] = (unequal_gpus, host_cache, host_oom, shared_memory, limits)
