"""Flags that got another name or went away, by version (sglang-facts 4.4)."""

from tui.frozen import frozen

Release = tuple[int, int, int]


@frozen
class Rename:
    """`old` was native before `since`, accepted with a warning until `gone` (None: to this day). `new`: takes the same
    value; None: nothing does. `advice`: what to write instead, in words.
    """

    old: str
    new: str | None
    since: Release
    gone: Release | None
    advice: str


def _to(old: str, new: str, since: Release, gone: Release | None) -> Rename:
    return Rename(old=old, new=new, since=since, gone=gone, advice=f"write --{new}")


_NGRAM = ("min-match-window-size", "max-match-window-size", "branch-length")
_FLASHINFER_MOE = ("cutlass", "trtllm", "mxfp4")

RENAMES: tuple[Rename, ...] = (
    _to("cuda-graph-max-bs", "cuda-graph-max-bs-decode", (0, 5, 14), (0, 5, 20)),
    _to("cuda-graph-bs", "cuda-graph-bs-decode", (0, 5, 14), (0, 5, 20)),
    _to("piecewise-cuda-graph-max-tokens", "cuda-graph-max-bs-prefill", (0, 5, 14), (0, 5, 20)),
    _to("piecewise-cuda-graph-tokens", "cuda-graph-bs-prefill", (0, 5, 14), (0, 5, 20)),
    _to("disable-piecewise-cuda-graph", "disable-prefill-cuda-graph", (0, 5, 14), (0, 5, 20)),
    Rename(
        old="enable-piecewise-cuda-graph",
        new=None,
        since=(0, 5, 10),
        gone=(0, 5, 14),
        advice="leave it out: prefill graphs are on by default",
    ),
    Rename(
        old="disable-cuda-graph",
        new=None,
        since=(0, 5, 14),
        gone=None,
        advice="write --disable-decode-cuda-graph and --disable-prefill-cuda-graph",
    ),
    Rename(
        old="enable-dp-attention",
        new=None,
        since=(0, 5, 22),
        gone=None,
        advice="write --attn-dp-size with the size of --dp-size",
    ),
    Rename(old="enable-ep-moe", new=None, since=(0, 5, 2), gone=(0, 5, 4), advice="write --ep-size with a size"),
    Rename(
        old="enable-deepep-moe",
        new=None,
        since=(0, 5, 2),
        gone=(0, 5, 4),
        advice="write --moe-a2a-backend deepep",
    ),
    *(
        Rename(
            old=f"enable-flashinfer-{kind}-moe",
            new=None,
            since=(0, 5, 2),
            gone=(0, 5, 4),
            advice=f"write --moe-runner-backend flashinfer_{kind}",
        )
        for kind in _FLASHINFER_MOE
    ),
    *(_to(f"speculative-ngram-{name}", "speculative-ngram-max-trie-depth", (0, 5, 10), (0, 5, 10)) for name in _NGRAM),
    _to("speculative-dflash-draft-window-size", "speculative-draft-window-size", (0, 5, 12), (0, 5, 20)),
    Rename(old="speculative-skip-dp-mlp-sync", new=None, since=(0, 5, 23), gone=(0, 5, 23), advice="leave it out"),
    Rename(
        old="torchao-config",
        new=None,
        since=(0, 5, 18),
        gone=(0, 5, 18),
        advice="write --quantization, or use a quantised checkpoint",
    ),
)
