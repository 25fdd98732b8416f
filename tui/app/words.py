"""Every word and abbreviation on the screen, explained."""

GLOSSARY: tuple[tuple[str, str], ...] = (
    ("GiB", "2^30 bytes. SGLang writes GB and means GiB; specdeck writes GiB everywhere."),
    ("–", "Not known. It is never shown as 0."),
    ("rank", "One worker process of the server. TP3 is the fourth tensor-parallel rank, DP and PP likewise."),
    ("base", "Weights of the model that is served (the target)."),
    ("draft", "Weights of the draft model of speculative decoding."),
    ("graphs", "CUDA graphs of target and draft, captured at start-up for each batch size."),
    (
        "KV",
        "KV cache: target, draft and recurrent state. Solid is what holds tokens now, light is allocated and empty.",
    ),
    ("other", "The server's memory that has no name in its log: CUDA context, NCCL, request table, workspaces."),
    ("foreign", "Memory of other processes on the same GPU."),
    ("free", "What the driver says is free."),
    (
        "budget",
        "Where the static budget ends: mem-fraction-static of the memory that was free before the weights. "
        "Weights and KV cache live left of it, graphs and activations right of it. "
        "Weights that cross it leave no KV cache.",
    ),
    ("tightest", "The GPU with the least free memory. All is judged by it."),
    ("plan", "The row under a bar: what a restart with the changed knobs would make of that GPU."),
    ("tok/s", "Tokens generated per second, all requests together."),
    (
        "accept length",
        "Tokens gained per verify step, the free one included: 1.00 means that speculation gains nothing.",
    ),
    ("KV %", "Share of the KV cache that holds tokens now."),
    ("running, queued", "Requests being decoded, and requests waiting for room."),
    ("knob", "A launch flag of SGLang, written without the two dashes."),
    ("auto", "Behind a knob: SGLang chose the value itself."),
    (
        "phase, total",
        "Time in this phase of the start, and since the launch; ~ is what earlier runs of the profile took.",
    ),
    ("live", "Every source spoke within the last seconds. Otherwise the silent one is named with its age."),
    ("rehearsal", "The machine is simulated. Nothing on this screen comes from a GPU."),
    ("likely", "Behind a verdict: the evidence points this way and does not prove it."),
)
