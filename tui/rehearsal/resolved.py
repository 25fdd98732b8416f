"""The arguments of a rehearsed server after SGLang's own decisions."""

from typing import Any

from tui.rehearsal.flags import defaults
from tui.rehearsal.launch import Launch
from tui.sglang.tiers import cuda_graph_max_bs


def resolved_args(launch: Launch) -> dict[str, Any]:
    """The arguments as `server_args=` and /server_info show them: given, decided by SGLang, or default."""
    version, knobs = launch.version, launch.knobs
    params = launch.params
    args = {
        "model_path": "",
        "tokenizer_path": launch.flags.model_path,
        **defaults(),
        **launch.flags.given,
        "mem_fraction_static": launch.mem_fraction_static,
        "chunked_prefill_size": launch.chunk,
        "max_running_requests": launch.requests_setting,
        "served_model_name": launch.flags.served_name,
    }
    graph = cuda_graph_max_bs(version, launch.settings.machine.mib, knobs)
    name = "cuda_graph_max_bs_decode" if version.at_least(0, 5, 14) else "cuda_graph_max_bs"
    args[name] = graph
    if version.before(0, 5, 14):
        for newer in [key for key in args if key.startswith("cuda_graph_") and key.endswith(("_decode", "_prefill"))]:
            del args[newer]
    if params is not None:
        args["speculative_num_steps"] = params.num_steps
        args["speculative_eagle_topk"] = params.eagle_topk
        args["speculative_num_draft_tokens"] = params.num_draft_tokens
    return args
