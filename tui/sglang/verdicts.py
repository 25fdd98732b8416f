"""The closed list of what `tui.facts.Verdict.kind` (and `tui.snapshot.Caution.kind`) may be."""

from collections.abc import Mapping
from types import MappingProxyType

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "weights-over-budget": "the weights leave nothing for KV under the fraction",
        "does-not-fit": "no fraction can work",
        "load-oom": "GPU memory ran out while the weights were loaded",
        "draft-oom": "the draft's weights or pool did not fit into the slack",
        "capture-oom": "GPU memory ran out while graphs were captured or workspace was allocated",
        "runtime-oom": "GPU memory ran out while serving",
        "kv-exhausted": "KV token slots ran out, or one request cannot fit",
        "state-exhausted": "recurrent or sliding-window state slots ran out",
        "pool-accounting": "SGLang's own pool bookkeeping does not add up",
        "host-memory": "host memory ran out",
        "gpu-shared": "another process holds GPU memory, or the GPUs are unequal",
        "draft-mismatch": "draft, target and flags do not belong together",
        "kernel": "a kernel, architecture, data type or build failure",
        "network": "the ranks could not talk to each other: NCCL, Gloo, rendezvous",
        "hang": "the server stands still",
        "bad-flag": "the command line was refused",
        "port-in-use": "the port is taken",
        "model-missing": "the checkpoint was not found, may not be read, or is broken",
        "low-acceptance": "speculation does not pay",
        "none": "nothing is wrong",
        "unknown": "it failed and the text does not hold the cause",
    }
)
