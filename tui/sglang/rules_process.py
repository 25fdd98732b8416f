"""Lines about host memory, dying and hanging processes, and the network. Texts by era: sglang-facts 2.4."""

from tui.sglang.problem_rule import F, rule

_HOST = (
    rule("oom-killer", "Out of memory: Kill"),
    rule("oom-killer", "invoked oom-killer"),
    rule("oom-killer", "oom-kill:"),
    rule("oom-killer", "Memory cgroup out of memory"),
    rule("oom-killer", "OOMKilled"),
    rule("oom-killer", "node was low on resource: memory"),
    rule(
        "host-cache-refused",
        "Not enough host memory available",
        rf"Requesting (?P<wanted_gib>{F}).*?have (?P<free_gib>{F})",
        optional=True,
    ),
    rule("host-oom", "Cannot allocate memory"),
    rule("host-oom", "DefaultCPUAllocator: can't allocate memory"),
    rule("host-oom", "std::bad_alloc"),
    rule("host-oom", "MemoryError", r"(?<![\w.])MemoryError\b"),
    rule("host-oom", "Unable to allocate", r"Unable to allocate [\d.]+ [KMGT]iB"),
    rule("shm-too-small", "insufficient shared memory"),
    rule("shm-too-small", "No space left on device", r"/dev/shm|shm_open|shared memory"),
    rule("shm-too-small", "Error while creating shared memory segment"),
    rule("disk-full", "No space left on device", r"^(?!.*(?:/dev/shm|shm_open|shared memory))"),
    rule("disk-full", "Disk quota exceeded"),
    rule("too-many-files", "Too many open files"),
)

_CODE = r"(?P<exit_code>-?\d{1,5})"
_PROCESS = (
    rule("process-exception", " hit an exception"),
    rule(
        "rank-died",
        "scheduler died during initialization",
        rf"Rank (?P<rank>\d{{1,5}}) scheduler died during initialization(?: \(exit code: {_CODE}\))?",
    ),
    rule("rank-dead", "scheduler is dead. Please check", r"Rank (?P<rank>\d{1,5}) scheduler is dead", optional=True),
    rule("exit-code", "Exit code: ", rf"^\s*Exit code: {_CODE}\s*$"),
    rule("subprocess-crashed", "crashed with exit code", rf"crashed with exit code {_CODE}"),
    rule(
        "process-terminated",
        "Scheduler or DataParallelController",
        rf"DataParallelController.{{0,80}} terminated with (?:exit code )?{_CODE}",
    ),
    rule("warmup-failed", "Initialization failed. warmup error"),
    rule("init-failed", "Initialization failed. Please see"),
    rule("sigquit", "Received sigquit from a child process"),
    rule("sigquit", "SIGQUIT received"),
    rule("bus-error", "Bus error"),
    rule("segfault", "Segfault encountered"),
    rule("segfault", "Segmentation fault"),
    rule("segfault", "SIGSEGV"),
    rule("aborted", "Aborted", r"(?:^|\s)Aborted\s*(?:\(core dumped\)|$)"),
    rule("aborted", "Fatal Python error: Aborted"),
    rule("aborted", "terminate called after throwing"),
    rule("shell-killed", "Killed", r"^\s*Killed\s*$|: line \d+: +\d+ Killed\b|^\[\d+\]\+?\s+Killed\b|^\s*\d+ Killed\s"),
)

_WATCHDOG = rf"atchdog timeout \((?:self\.)?watchdog_timeout=(?P<watchdog_timeout_s>{F})"
_HANG = (
    rule("watchdog-timeout", "Watchdog timeout", _WATCHDOG, optional=True),
    rule("watchdog-timeout", "watchdog timeout", _WATCHDOG, optional=True),
    rule("stack-dump", "yspy dump for PID", r"for PID (?P<pid>\d{1,9})"),
    rule("stack-dump", "py-spy dump for PID", r"for PID (?P<pid>\d{1,9})"),
    rule(
        "health-check-failed",
        "Health check failed. Server couldn't get a response",
        rf"for last (?P<seconds>{F}) seconds",
        optional=True,
    ),
)

_NETWORK = (
    rule("nccl-timeout", "Watchdog caught collective operation timeout"),
    rule("nccl-timeout", "collective operation timeout"),
    rule("nccl-error", "NCCL error"),
    rule("nccl-error", "ncclUnhandledCudaError"),
    rule("nccl-error", "ncclSystemError"),
    rule("nccl-error", "ncclInternalError"),
    rule("nccl-error", "ncclInvalidUsage"),
    rule("nccl-error", "ncclRemoteError"),
    rule("nccl-error", "unhandled system error"),
    rule("nccl-error", "DistBackendError"),
    rule("nccl-warn", "NCCL WARN"),
    rule("peer-closed", "onnection closed by peer"),
    rule("peer-closed", "onnection was closed by remote peer"),
    rule("peer-closed", "onnection closed by remote peer"),
    rule("peer-closed", "onnection reset by peer"),
    rule("peer-closed", "Broken pipe", r"(?:BrokenPipeError|sendBytes failed|Broken pipe)"),
    rule("gloo-error", "Gloo ", r"Gloo (?:\w+ )?(?:failed|error)"),
    rule(
        "gloo-error", "/gloo/", r"enforce fail at .{0,120}/gloo/|/gloo/.{0,160}(?:[Tt]imed out|failed|refused|no error)"
    ),
    rule("store-error", "TCPStore"),
    rule("store-error", "DistStoreError"),
    rule("store-error", "DistNetworkError"),
    rule("store-error", "endezvous", r"[Rr]endezvous\w*(?:Error|Timeout)|[Rr]endezvous.{0,40}(?:failed|timed out)"),
    rule("store-error", "The client socket has failed to connect"),
    rule("dns-failed", "Name or service not known"),
    rule("dns-failed", "Temporary failure in name resolution"),
)

PROCESS_RULES = (*_HOST, *_PROCESS, *_HANG, *_NETWORK)
