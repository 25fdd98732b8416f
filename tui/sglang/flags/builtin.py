"""The main knobs, for when no SGLang can be asked. Types and choices of 0.5.23, with the versions that know a flag."""

from tui.frozen import frozen

Release = tuple[int, int, int]
_FIRST: Release = (0, 4, 6)


@frozen(kw_only=False)
class Known:
    """One line of the table: `since` and `gone` bound the releases that accept the flag."""

    name: str
    type: str
    help: str
    default: object = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    many: bool = False
    since: Release = _FIRST
    gone: Release | None = None


KNOWN: tuple[Known, ...] = (
    Known("model-path", "str", "Folder of the checkpoint, or its name on the hub.", aliases=("model",)),
    Known("served-model-name", "str", "The name that clients ask for."),
    Known("trust-remote-code", "bool", "Run Python code that the checkpoint brings.", False),
    Known("host", "str", "Address to listen on.", "127.0.0.1"),
    Known("port", "int", "Port to listen on.", 30000),
    Known("device", "str", "What to run on; found out when left out."),
    Known("dtype", "str", "Number format of weights and activations.", "auto"),
    Known("quantization", "str", "Quantise while loading, or name the checkpoint's method."),
    Known("context-length", "size", "Longest request in tokens; the model's own when left out."),
    Known("tool-call-parser", "str", "How tool calls are read out of the answer."),
    Known("reasoning-parser", "str", "How reasoning is read out of the answer."),
    Known("enable-metrics", "bool", "Answer at /metrics.", False),
    Known("decode-log-interval", "int", "Decode steps between two log lines.", 40),
    Known("watchdog-timeout", "float", "Seconds without a finished batch before the server ends itself.", 300),
    Known("attention-backend", "str", "The attention kernels."),
    Known("mem-fraction-static", "float", "Share of the free memory for weights and KV cache; else automatic."),
    Known("max-total-tokens", "size", "Cap on the tokens of the KV cache."),
    Known("kv-cache-dtype", "str", "Number format of the KV cache.", "auto"),
    Known("page-size", "int", "Tokens of a KV page.", 1),
    Known("cpu-offload-gb", "int", "GiB of weights kept in host memory.", 0),
    Known("swa-full-tokens-ratio", "float", "Window-layer tokens per full-layer token.", 0.8, since=(0, 4, 9)),
    Known("mamba-full-memory-ratio", "float", "Recurrent state's memory against the KV's.", 0.9, since=(0, 5, 3)),
    Known("max-mamba-cache-size", "int", "Slots of recurrent state.", since=(0, 5, 2)),
    Known("enable-memory-saver", "bool", "Let memory be released and taken back.", False),
    Known("chunked-prefill-size", "int", "Tokens of one prefill; -1 is no limit."),
    Known("max-prefill-tokens", "size", "Tokens of one prefill batch.", 16384),
    Known("max-running-requests", "int", "Requests that run at once; 48 with speculation when left out."),
    Known("schedule-policy", "str", "Which waiting request goes first.", "fcfs"),
    Known("schedule-conservativeness", "float", "Higher: fewer requests are pushed out when KV runs short.", 1.0),
    Known("disable-radix-cache", "bool", "Keep no prefix for later requests.", False),
    Known("disable-overlap-schedule", "bool", "Do not prepare a batch while the one before runs.", False),
    Known("enable-mixed-chunk", "bool", "Prefill and decode in one batch.", False),
    Known("cuda-graph-max-bs", "int", "Largest decode batch to capture as a graph.", gone=(0, 5, 20)),
    Known("cuda-graph-bs", "int", "Decode batches to capture.", many=True, gone=(0, 5, 20)),
    Known("cuda-graph-max-bs-decode", "int", "Largest decode batch to capture as a graph.", since=(0, 5, 14)),
    Known("cuda-graph-bs-decode", "int", "Decode batches to capture.", many=True, since=(0, 5, 14)),
    Known("cuda-graph-max-bs-prefill", "int", "Most tokens of a prefill to capture.", since=(0, 5, 14)),
    Known("cuda-graph-bs-prefill", "int", "Prefill sizes to capture.", many=True, since=(0, 5, 14)),
    Known("cuda-graph-backend-decode", "str", "How decode graphs are captured.", since=(0, 5, 14)),
    Known("cuda-graph-backend-prefill", "str", "How prefill graphs are captured.", since=(0, 5, 14)),
    Known("disable-cuda-graph", "bool", "Capture no graphs.", False),
    Known("disable-decode-cuda-graph", "bool", "Capture no decode graphs.", False, since=(0, 5, 14)),
    Known("disable-prefill-cuda-graph", "bool", "Capture no prefill graphs.", False, since=(0, 5, 14)),
    Known("disable-cuda-graph-padding", "bool", "Do not pad batches to a captured size.", False),
    Known("enable-piecewise-cuda-graph", "bool", "Capture prefill graphs.", False, since=(0, 5, 3), gone=(0, 5, 14)),
    Known("disable-piecewise-cuda-graph", "bool", "No prefill graphs.", False, since=(0, 5, 10), gone=(0, 5, 20)),
    Known("piecewise-cuda-graph-max-tokens", "int", "Tokens of a prefill graph.", since=(0, 5, 3), gone=(0, 5, 20)),
    Known("enable-torch-compile", "bool", "Compile the model with torch.", False),
    Known("tp-size", "int", "GPUs that share every layer.", 1, aliases=("tensor-parallel-size",)),
    Known("pp-size", "int", "Stages of layers.", 1, aliases=("pipeline-parallel-size",)),
    Known("dp-size", "int", "Copies of the model, or with DP attention of the attention.", 1,
          aliases=("data-parallel-size",)),
    Known("ep-size", "int", "GPUs that share the experts.", 1, aliases=("expert-parallel-size", "ep")),
    Known("enable-dp-attention", "bool", "Data parallelism for attention, tensor parallelism for the rest.", False),
    Known("attn-dp-size", "int", "Copies of the attention.", 1, aliases=("attention-data-parallel-size",),
          since=(0, 5, 22)),
    Known("moe-a2a-backend", "str", "How experts exchange tokens.", since=(0, 5, 2)),
    Known("moe-runner-backend", "str", "The kernels of the experts.", since=(0, 5, 2)),
    Known("disable-custom-all-reduce", "bool", "Leave reductions to NCCL.", False),
    Known("speculative-algorithm", "str", "How to draft: EAGLE, EAGLE3, NEXTN, STANDALONE, NGRAM, DFLASH."),
    Known("speculative-draft-model-path", "str", "Folder of the draft.", aliases=("speculative-draft-model",)),
    Known("speculative-num-steps", "int", "Steps that the draft takes."),
    Known("speculative-eagle-topk", "int", "Continuations kept at each step."),
    Known("speculative-num-draft-tokens", "int", "Tokens that one verification checks."),
    Known("speculative-token-map", "str", "Frequent tokens that the draft is held to."),
    Known("speculative-draft-model-quantization", "str", "Quantisation of the draft.", since=(0, 5, 7)),
    Known("speculative-draft-kv-cache-dtype", "str", "Number format of the draft's KV cache.", since=(0, 5, 18)),
)  # fmt: skip
