"""Every word and abbreviation on the screen, explained. The only glossary there is: help shows it."""

GLOSSARY: tuple[tuple[str, str], ...] = (
    # numbers
    ("GiB, MiB", "2^30 and 2^20 bytes. SGLang writes GB and means GiB; specdeck writes GiB everywhere."),
    ("–", "Not known. It is never shown as 0."),
    (
        "measured, learned, computed, estimated",
        "Where a number comes from: the log, the driver or an endpoint; earlier runs like this one; a formula; a guess "
        "with an interval. The earlier beats the later. i shows it for what is under the cursor.",
    ),
    # processes
    (
        "rank, TP, PP, DP",
        "One worker process of the server, on one GPU. TP3 is the fourth tensor-parallel rank: all of them share every "
        "layer. PP: pipeline-parallel, ranks that hold different layers.",
    ),
    (
        "DP rank",
        "Data-parallel: a scheduler with requests and a KV cache of its own, e.g. DP1. One that stands still is not "
        "seen in the log: the others go on.",
    ),
    (
        "host, UMA, MIG",
        "What a bar is of when it is no whole GPU: the machine's own memory, memory that GPU and host "
        "share, a slice of a GPU.",
    ),
    # the bars
    ("base", "Weights of the model that is served (the target)."),
    ("draft", "Weights of the draft model of speculative decoding."),
    (
        "graphs, capture",
        "CUDA graphs of target and draft: the GPU's work for one batch size, recorded (captured) once at the start and "
        "played again at each step. Batches without a graph run slower.",
    ),
    (
        "KV, KV cache, KV pool",
        "What attention keeps of every token: of target and draft, and recurrent state. Solid is what holds tokens "
        "now, light is allocated and empty.",
    ),
    ("other", "The server's memory that has no name in its log: CUDA context, NCCL, request table, workspaces."),
    ("foreign", "Memory of other processes on the same GPU."),
    ("free", "What the driver says is free."),
    ("tightest", "The GPU with the least free memory, marked at its right. All is judged by it."),
    ("CUDA, NCCL", "NVIDIA's way to run work on a GPU, and its library by which ranks talk to each other."),
    # the memory equation
    (
        "fraction, f",
        "mem-fraction-static: the share of the memory that was free before the weights, into which weights and KV "
        "cache have to fit together. SGLang chooses it when nobody sets it.",
    ),
    (
        "budget",
        "Where the fraction ends on the bar, P x f. Weights and KV cache live left of it, graphs and activations right "
        "of it. Weights that cross it leave no KV cache.",
    ),
    (
        "slack",
        "P x (1 - f), what the fraction leaves out: for graphs, activations, the request table and, before SGLang "
        "0.5.14, the draft. Too little of it, and the capture runs out of memory: then the fraction must go down.",
    ),
    ("floor", "1 - A/P: the fraction that leaves nothing for KV. Only a larger one starts."),
    ("P, A", "GiB free before the weights, and GiB free when the KV pool is sized; each the least of all ranks."),
    ("activations", "Working memory while a batch is computed. It grows with chunked-prefill-size."),
    ("request table", "A row for each request that may run, as long as the longest request may be."),
    ("plan", "What a launch would do, computed before it: the row under a bar, and the sentence below the bars."),
    # speed
    ("tok/s", "Tokens generated per second, all requests together. tok/s@batch: at so many requests at once."),
    ("batch", "How many requests are decoded together in one step."),
    ("prefill, decode", "Reading a prompt, and generating after it. Long prompts are read in chunks."),
    ("step, verify", "One pass of the target. With speculation it verifies the tokens that the draft proposed."),
    (
        "accept length, accept",
        "Tokens gained per verify step, the free one included: 1.00 means that speculation gains nothing.",
    ),
    (
        "pays, break even",
        "Speculation pays while the accept length is above what its slower steps cost: the step time with it by the "
        "step time without it. Both are measured, at the same batch.",
    ),
    ("economy", "The sentence below the plot: whether speculation pays, and from which batch size on no more."),
    ("baseline", "A run that was pinned to compare with (b in the history). The dashed line of the plot is its speed."),
    ("KV %", "Share of the KV cache that holds tokens now."),
    ("running, queued", "Requests being decoded, and requests waiting for room in the KV cache or for a slot."),
    ("retracted", "Thrown back into the queue because the KV cache was full; its work is done again."),
    (
        "EAGLE, EAGLE3, NGRAM",
        "Kinds of speculation: a small draft model on the target's own state, its third form, and "
        "one without a model, which repeats what stood in the text before.",
    ),
    # state
    (
        "phase, total",
        "Time in this phase of the start, and since the launch; ~ is what earlier runs of the profile took.",
    ),
    ("live", "Every source spoke within the last seconds. Otherwise the silent one is named with its age."),
    ("FROZEN", "p was pressed: the screen stands still, the server does not. p goes on."),
    ("FOLLOW, PAUSED", "Whether the log pane goes along with the end of the log. f does so again."),
    ("REHEARSAL", "The machine is simulated. Nothing on this screen comes from a GPU."),
    ("verdict", "The card over the log: what is wrong, why, by which lines, and the change of a knob that mends it."),
    ("certain, likely", "Behind a verdict: the evidence proves it, or points this way and does not prove it."),
    ("caution", "The rows below the bars: something to look at while the server runs. It goes away with its cause."),
    ("OOM", "Out of memory. The kernel's OOM killer ends processes when the host has none left."),
    ("ECC, SM", "A GPU's memory checks (an uncorrectable ECC error ends everything on it), and its kind of processor."),
    # control
    ("knob", "A launch flag of SGLang, written without the two dashes."),
    ("auto, cli", "Behind a knob: SGLang chose the value itself; it stood on the command line."),
    ("profile", "A file that says how a server is started: command, environment, knobs."),
    ("run", "One start of a server and all that is kept of it, in a folder of its own. H lists them."),
    ("keeper", "The small process that starts a server, outlives the dashboard and writes down how the server ended."),
    (
        "SIGTERM, SIGKILL",
        "The request to end, after which requests in flight are finished, and the end without asking. "
        "SIGQUIT, SIGABRT, SIGSEGV, SIGBUS: a program ended itself after an error, or was ended for one.",
    ),
    ("sweep, case", "Knob values tried one after the other, unattended; a case is one of their combinations."),
    ("workload, bench", "A fixed set of requests that is sent to measure the speed."),
    ("replay", "A recorded run, played in the same screen."),
)
