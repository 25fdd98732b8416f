# ruff: noqa: E501 (log lines are as long as SGLang writes them)
"""Logs of servers that die, in the words of every era: generated starts that end in a traceback."""

import pytest

ERAS = ("0.4.6", "0.4.9", "0.5.2", "0.5.5", "0.5.9", "0.5.12", "0.5.15", "0.5.23")
OOM = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 94.97 GiB of which 512.00 MiB is free. "
    "Including non-PyTorch memory, this process has 94.46 GiB memory in use. Of the allocated memory 90.00 GiB is allocated "
    "by PyTorch, with 1.25 GiB allocated in private pools (e.g., CUDA Graphs), and 256.00 MiB is reserved by PyTorch but unallocated."
)
ADVICE = (
    "\nPossible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
    "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n3. disable torch compile by not using --enable-torch-compile\n"
    "4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)\n"
    "Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose "
)
SRT = "/srv/venv/lib/python3.11/site-packages/sglang/srt"
FRAMES = {
    "init": ("managers/scheduler.py", "run_scheduler_process", "scheduler = Scheduler("),
    "pool": ("model_executor/model_runner.py", "init_memory_pool", "raise RuntimeError("),
    "load": ("model_executor/model_runner.py", "load_model", "self.model = get_model("),
    "capture": ("model_executor/cuda_graph_runner.py", "capture_one_batch_size", "run_once()"),
    "draft": ("speculative/eagle_worker.py", "__init__", "super().__init__("),
    "backend": ("layers/attention/flashinfer_backend.py", "__init__", "torch.empty("),
    "run": ("managers/scheduler.py", "event_loop_overlap", "result = self.run_batch(batch)"),
    "forward": ("model_executor/model_runner.py", "forward", "output = self._forward_raw("),
    "attention": ("layers/attention/triton_backend.py", "forward_extend", "self.extend_attention_fwd("),
}


def trace(exception: str, *frames: str) -> list[str]:
    lines = ["Traceback (most recent call last):"]
    for name in frames:
        file, function, code = FRAMES[name]
        lines += [f'  File "{SRT}/{file}", line 123, in {function}', f"    {code}"]
    return [*lines, *exception.split("\n")]


def failure(writer, exception: str, *frames: str, rank: int = 0) -> list[str]:
    first, *rest = trace(exception, *frames)
    return [f"{writer.stamp(rank)}Scheduler hit an exception: {first}", *rest, ""]


def noise(writer, rank: int) -> list[str]:
    said = (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:4242"
    )
    return [
        f"[rank{rank}]:[W1129 12:00:00.1 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called",
        *failure(writer, said, "init", rank=rank),
    ]


def end(writer, launch: bool = True) -> list[str]:
    if launch or not writer.since("0.5.3"):
        lines = [writer.stamp() + "Received sigquit from a child process. It usually means the child failed."]
    else:
        lines = [writer.stamp() + "SIGQUIT received. signum=None, frame=None. It usually means one child failed."]
    if writer.since("0.5.13"):
        lines.append(writer.stamp() + "kill_process_tree called: parent_pid=1, include_parent=True, pid=1")
    return [
        *lines,
        "./run.sh: line 22: 103525 Killed                  python -m sglang.launch_server --mem-fraction-static 0.95",
    ]


def until(writer, marker: str, count: int = 1) -> list[str]:
    """The start up to and with the `count`-th line that holds `marker`."""
    lines, seen = [], 0
    for line in writer.start():
        lines.append(line)
        seen += marker in line
        if seen == count:
            return lines
    pytest.fail(f"{marker!r} does not come {count} times")


def crash(writer, marker: str, exception: str, *frames: str, launch: bool = True, count: int = 1) -> list[str]:
    """A start of two ranks that ends after `marker` with the same exception on both, and the words of a third."""
    return [
        *until(writer, marker, count),
        *failure(writer, exception, *frames, rank=1),
        *failure(writer, exception, *frames, rank=0),
        *noise(writer, 1),
        *end(writer, launch),
    ]


def refused(version: str) -> str:
    release = tuple(map(int, version.split(".")))
    if release >= (0, 5, 14):
        return (
            "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.85. Raise "
            "--mem-fraction-static above 0.770 (minimum viable = 1 - available/pre = 0.7695). If using speculative decoding, "
            "draft weights are now counted."
        )
    said = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
    if release >= (0, 5, 10):
        return f"{said} Current value: mem_fraction_static=0.76"
    return f"{said} Current value: self.server_args.mem_fraction_static=0.76" if release >= (0, 5, 3) else said
