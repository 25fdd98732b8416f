"""How a rehearsed server dies: the tracebacks and last words of each version (sglang-facts 1.7 and 2.4). Pure."""

from collections.abc import Sequence

from tui.frozen import frozen
from tui.rehearsal.launch import Launch
from tui.sglang.budget import ceil3
from tui.sglang.versions import Version

_SITE = "/usr/local/lib/python3.12/dist-packages"
_SRT = f"{_SITE}/sglang/srt"


@frozen(kw_only=False)
class Frame:
    """One frame of a traceback."""

    file: str
    line: int
    function: str
    code: str


class SimulatedError(Exception):
    """A rank of the server failed. `text`: what follows "Scheduler hit an exception: ", a traceback. GiB are local."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@frozen
class OutOfMemory:
    """What torch says when an allocation fails. GiB; `private_gib` in the pools of CUDA graphs."""

    gpu: int
    tried_gib: float
    total_gib: float
    free_gib: float
    used_gib: float
    private_gib: float = 0.0

    def message(self) -> str:
        """The exception's message, without its type."""
        allocated = max(0.0, self.used_gib - 0.9)
        private = (
            f", with {_size(self.private_gib)} allocated in private pools (e.g., CUDA Graphs)"
            if self.private_gib
            else ""
        )
        return (
            f"CUDA out of memory. Tried to allocate {_size(self.tried_gib)}. GPU {self.gpu} has a total capacity of "
            f"{self.total_gib:.2f} GiB of which {_size(self.free_gib)} is free. Including non-PyTorch memory, this "
            f"process has {self.used_gib:.2f} GiB memory in use. Of the allocated memory {allocated:.2f} GiB is "
            f"allocated by PyTorch{private}, and {_size(0.04)} is reserved by PyTorch but unallocated. If reserved but "
            "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
            "fragmentation.  See documentation for Memory Management  "
            "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        )


def _size(gib: float) -> str:
    return f"{gib:.2f} GiB" if gib >= 1 else f"{gib * 1024:.2f} MiB"


def traceback(frames: Sequence[Frame], last: str) -> str:
    """As Python prints it; `last` is "Type: message"."""
    lines = ["Traceback (most recent call last):"]
    for frame in frames:
        lines += [f'  File "{frame.file}", line {frame.line}, in {frame.function}', f"    {frame.code}"]
    return "\n".join([*lines, last])


def chained(first: str, then: str) -> str:
    """Two tracebacks, the second raised while the first was handled."""
    return f"{first}\n\nDuring handling of the above exception, another exception occurred:\n\n{then}"


def _scheduler(version: Version) -> list[Frame]:
    number = version.release[2]
    return [
        Frame(
            f"{_SRT}/managers/scheduler.py",
            2400 + 70 * number,
            "run_scheduler_process",
            "scheduler = Scheduler(",
        ),
    ]


def _to_runner(version: Version, draft: bool) -> list[Frame]:
    """From the process to the runner's initialize, up to 0.5.13."""
    number = version.release[2]
    worker = "self.draft_worker = EAGLEWorker(" if draft else "self.tp_worker = TpWorkerClass("
    frames = [*_scheduler(version), Frame(f"{_SRT}/managers/scheduler.py", 320 + 9 * number, "__init__", worker)]
    if draft:
        eagle = f"{_SRT}/speculative/eagle_worker.py"
        frames.append(Frame(eagle, 130 + number, "__init__", "super().__init__("))
    else:
        overlap = f"{_SRT}/managers/tp_worker_overlap_thread.py"
        if version.before(0, 5, 5):
            frames.append(Frame(overlap, 70 + number, "__init__", "self.worker = TpModelWorker("))
    return [
        *frames,
        Frame(f"{_SRT}/managers/tp_worker.py", 80 + 20 * number, "__init__", "self.model_runner = ModelRunner("),
        Frame(
            f"{_SRT}/model_executor/model_runner.py",
            260 + 12 * number,
            "__init__",
            "self.initialize(min_per_gpu_memory)",
        ),
    ]


def _in_runner(version: Version, draft: bool, method: str, code: str) -> list[Frame]:
    number = version.release[2]
    return [
        *_to_runner(version, draft),
        Frame(f"{_SRT}/model_executor/model_runner.py", 330 + 14 * number, "initialize", code),
        Frame(f"{_SRT}/model_executor/model_runner.py", 1180 + 40 * number, method, "raise RuntimeError("),
    ]


def _new_worker(version: Version, *steps: tuple[str, str, str]) -> list[Frame]:
    """From the process through init_model_worker, from 0.5.14 on. Steps: (file, function, code)."""
    number = version.release[2]
    frames = [
        *_scheduler(version),
        Frame(f"{_SRT}/managers/scheduler.py", 300 + 11 * number, "__init__", "self.init_model_worker()"),
    ]
    return frames + [
        Frame(f"{_SRT}/{f}", 200 + 31 * number + 40 * i, fn, code) for i, (f, fn, code) in enumerate(steps)
    ]


def unbalanced(launch: Launch, least_gib: float, local_gib: float) -> str:
    """Another process holds memory on one GPU; raised on the ranks that have more than it."""
    version = launch.version
    name = "min_per_gpu_memory" if version.before(0, 5, 10) else "pre_model_load_memory"
    kind = "ValueError" if version.before(0, 5, 7) else "RuntimeError"
    last = (
        f"{kind}: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
        f"{name}={least_gib!r}, local_gpu_memory={local_gib!r}, local_gpu_memory * 0.9={local_gib * 0.9!r}"
    )
    frames = _to_runner(version, draft=False)[:-1]
    runner = f"{_SRT}/model_executor/model_runner.py"
    frames += [
        Frame(runner, 240, "__init__", "min_per_gpu_memory = self.init_torch_distributed()"),
        Frame(runner, 610, "init_torch_distributed", f"raise {kind}("),
    ]
    return traceback(frames, last)


def pool_refused(launch: Launch, free_before_gib: float, available_gib: float) -> str:
    """Weights leave nothing for the KV cache under the fraction."""
    version, fraction = launch.version, launch.mem_fraction_static
    if version.at_least(0, 5, 14) and available_gib - launch.reservation_gib <= free_before_gib * (1 - fraction):
        floor = 1 - (available_gib - launch.reservation_gib) / free_before_gib
        last = (
            "ValueError: Loaded weights leave no GPU memory for the KV cache under "
            f"--mem-fraction-static={fraction:.4g}. Raise --mem-fraction-static above {ceil3(floor):.3f} (minimum "
            f"viable = 1 - available/pre = {floor:.4f}). If using speculative decoding, draft weights are now counted."
        )
        configurator = "mem_cache/kv_cache_configurator.py"
        steps = (
            ("managers/scheduler.py", "init_model_worker", "self.init_memory_pools()"),
            ("managers/scheduler.py", "init_memory_pools", "self.init_target_memory_pool()"),
            ("managers/tp_worker.py", "alloc_memory_pool", "self.model_runner.alloc_memory_pool("),
            (configurator, "configure", "config = self._resolve_memory_pool_config(pre_model_load_memory)"),
            (configurator, "_profile_available_bytes", "raise ValueError("),
        )
        return traceback(_new_worker(version, *steps), last)
    value = ""
    if version.at_least(0, 5, 10):
        value = f" Current value: mem_fraction_static={fraction!r}"
    elif version.at_least(0, 5, 3):
        value = f" Current value: self.server_args.mem_fraction_static={fraction!r}"
    last = f"RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.{value}"
    return traceback(_in_runner(version, False, "init_memory_pool", "self.init_memory_pool("), last)


def load_oom(launch: Launch, oom: OutOfMemory, draft: bool) -> str:
    """The weights do not fit."""
    version = launch.version
    load = [
        Frame(f"{_SRT}/model_loader/loader.py", 595, "load_model", "model = _initialize_model("),
        Frame(f"{_SRT}/layers/linear.py", 1280, "__init__", "self.quant_method.create_weights("),
        Frame(f"{_SRT}/layers/quantization/unquant.py", 98, "create_weights", "torch.empty("),
        Frame(f"{_SITE}/torch/utils/_device.py", 103, "__torch_function__", "return func(*args, **kwargs)"),
    ]
    last = f"torch.OutOfMemoryError: {oom.message()}"
    if version.at_least(0, 5, 14):
        worker = ("self.draft_worker.load_model()", "self.tp_worker.load_model()")[0 if draft else 1]
        steps = (
            ("managers/scheduler.py", "init_model_worker", worker),
            ("model_executor/model_runner.py", "load_model", "self.model = self.loader.load_model("),
        )
        return traceback([*_new_worker(version, *steps), *load], last)
    frames = [
        *_to_runner(version, draft),
        Frame(f"{_SRT}/model_executor/model_runner.py", 365, "initialize", "self.load_model()"),
        Frame(f"{_SRT}/model_executor/model_runner.py", 735, "load_model", "self.model = get_model("),
    ]
    return traceback([*frames, *load], last)


def pool_oom(launch: Launch, oom: OutOfMemory, draft: bool) -> str:
    """The pool that was computed cannot be allocated: before 0.5.14 the draft's comes out of the slack."""
    latent = (launch.draft if draft and launch.draft else launch.model).traits.mla
    pool = "MLATokenToKVPool" if latent else "MHATokenToKVPool"
    tail = [
        Frame(f"{_SRT}/mem_cache/memory_pool.py", 910, "_create_buffers", "torch.zeros("),
        Frame(f"{_SITE}/torch/utils/_device.py", 103, "__torch_function__", "return func(*args, **kwargs)"),
    ]
    last = f"torch.OutOfMemoryError: {oom.message()}"
    if launch.version.at_least(0, 5, 14):
        steps = (
            ("managers/scheduler.py", "init_model_worker", "self.init_memory_pools()"),
            ("mem_cache/kv_cache_configurator.py", "configure", f"self.token_to_kv_pool = {pool}("),
        )
        return traceback([*_new_worker(launch.version, *steps), *tail], last)
    frames = _in_runner(launch.version, draft, "init_memory_pool", "self.init_memory_pool(")[:-1]
    runner = f"{_SRT}/model_executor/model_runner.py"
    frames.append(Frame(runner, 1890, "init_memory_pool", f"self.token_to_kv_pool = {pool}("))
    return traceback([*frames, *tail], last)


def workspace_oom(launch: Launch, oom: OutOfMemory, draft: bool) -> str:
    """The attention backend's workspace does not fit."""
    frames = [
        *_to_runner(launch.version, draft),
        Frame(f"{_SRT}/model_executor/model_runner.py", 402, "initialize", "self.init_attention_backend()"),
        Frame(
            f"{_SRT}/layers/attention/flashinfer_mla_backend.py",
            214,
            "__init__",
            "global_workspace_buffer = torch.empty(",
        ),
    ]
    return traceback(frames, f"torch.OutOfMemoryError: {oom.message()}")


def capture_oom(launch: Launch, oom: OutOfMemory, graph: str) -> str:
    """Memory ran out while CUDA graphs were captured, and SGLang's advice."""
    version, draft = launch.version, graph.startswith("draft")
    runner = f"{_SRT}/model_executor/cuda_graph_runner.py"
    inner = traceback(
        [
            Frame(runner, 380, "__init__", "self.capture()"),
            Frame(runner, 510, "capture", ") = self.capture_one_batch_size(bs, forward)"),
            Frame(runner, 700, "capture_one_batch_size", "run_once()"),
            Frame(f"{_SRT}/layers/logits_processor.py", 470, "_get_logits", "logits = torch.matmul("),
        ],
        f"torch.OutOfMemoryError: {oom.message()}",
    )
    if version.at_least(0, 5, 14):
        if graph == "target prefill":
            advice = (
                f"Capture prefill CUDA graph failed: {oom.message()}\nFail when using backend: breakable\n"
                "Possible solutions:\n1. set --cuda-graph-backend-prefill=disabled\n"
                "2. set --cuda-graph-max-bs-prefill to a smaller value\n"
            )
        else:
            advice = _advice(oom, "--cuda-graph-max-bs-decode", "--cuda-graph-backend-decode=disabled")
        frames = _new_worker(version, ("managers/scheduler.py", "init_model_worker", "self.init_cuda_graphs()"))
    else:
        word = "CUDA" if version.before(0, 4, 7) else "cuda"
        advice = _advice(oom, "--cuda-graph-max-bs", "--disable-cuda-graph").replace("cuda", word, 1)
        frames = _in_runner(version, draft, "init_device_graphs", "self.init_device_graphs()")[:-1]
        frames.append(
            Frame(
                f"{_SRT}/model_executor/model_runner.py",
                1990,
                "init_device_graphs",
                "self.graph_runner = CudaGraphRunner(self)",
            )
        )
    outer = traceback([*frames, Frame(runner, 385, "__init__", "raise Exception(")], f"Exception: {advice}")
    return chained(inner, outer)


def _advice(oom: OutOfMemory, batch_flag: str, off_flag: str) -> str:
    return (
        f"Capture cuda graph failed: {oom.message()}\nPossible solutions:\n"
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
        f"2. set {batch_flag} to a smaller value (e.g., 16)\n"
        "3. disable torch compile by not using --enable-torch-compile\n"
        f"4. disable CUDA graph by {off_flag}. (Not recommended. Huge performance loss)\n"
        "Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose \n"
    )


def runtime_oom(launch: Launch, oom: OutOfMemory) -> str:
    """A prefill's working memory does not fit while serving."""
    number = launch.version.release[2]
    loop = "event_loop_overlap" if launch.algorithm is None else "event_loop_normal"
    frames = [
        Frame(f"{_SRT}/managers/scheduler.py", 2410 + 70 * number, "run_scheduler_process", f"scheduler.{loop}()"),
        Frame(f"{_SRT}/managers/scheduler.py", 790 + 9 * number, loop, "result = self.run_batch(batch)"),
        Frame(f"{_SRT}/model_executor/model_runner.py", 2200, "forward", "output = self._forward_raw("),
        Frame(
            f"{_SRT}/layers/moe/fused_moe_triton/layer.py", 850, "forward", "final_hidden_states = torch.empty_like("
        ),
    ]
    return traceback(frames, f"torch.OutOfMemoryError: {oom.message()}")


def no_such_gpu(launch: Launch) -> str:
    """More ranks than GPUs."""
    frames = [
        *_to_runner(launch.version, draft=False)[:-1],
        Frame(
            f"{_SRT}/model_executor/model_runner.py",
            560,
            "init_torch_distributed",
            "torch.get_device_module(self.device).set_device(",
        ),
        Frame(f"{_SITE}/torch/cuda/__init__.py", 567, "set_device", "torch._C._cuda_setDevice(device)"),
    ]
    return traceback(
        frames,
        "torch.AcceleratorError: CUDA error: invalid device ordinal\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
        "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    )


def died_at_start(version: Version, rank: int, code: int) -> str:
    """The main process on a scheduler that vanished before it was ready."""
    if version.at_least(0, 5, 10):
        return (
            f"Rank {rank} scheduler died during initialization (exit code: {code}). If exit code is -9 (SIGKILL), a "
            "common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
        )
    return f"Rank {rank} scheduler is dead. Please check if there are relevant logs."


def main_traceback(version: Version, message: str) -> str:
    """The main process's own end after that, on stderr."""
    engine = f"{_SRT}/entrypoints/engine.py"
    last = f"RuntimeError: {message}" if version.at_least(0, 5, 10) else "EOFError"
    frames = [
        Frame(f"{_SITE}/sglang/launch_server.py", 30, "<module>", "run_server(server_args)"),
        Frame(f"{_SRT}/entrypoints/http_server.py", 1310, "launch_server", "_launch_subprocesses("),
        Frame(engine, 870, "_launch_subprocesses", "data = scheduler_pipe_readers[i].recv()"),
    ]
    return traceback(frames, last)
