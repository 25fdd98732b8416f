"""Make the checkpoints that the real server serves in tests: `make_models.py FOLDER` (with SGLang's interpreter).

Random weights, shaped so that speculation behaves as it does with real ones. The target's next token follows mostly
from the token before it (its embedding carries the residual stream, and each token has two favoured successors), and
its layers add a smaller, context-dependent part that now and then tips the choice. So a draft made of the target's
first layer, and an EAGLE3 head that knows only the embeddings, are both right often but not always.

    tiny-llama       the target: 4 layers of 2048, 361 MiB of bfloat16 in four shards
    tiny-draft-near  its embeddings, first layer and head: a draft for STANDALONE
    tiny-eagle3      an EAGLE3 head of the same width
    tiny-draft       an unrelated, narrower Llama: the wrong draft
"""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 2048, 5632, 4, 16, 8, 128
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
VOCAB = 264
CONTEXT = 8192
# How much of the choice of the next token the context decides: larger means fewer accepted draft tokens.
ATTENTION_GAIN, MLP_GAIN = 0.02, 0.003
SUCCESSOR_GAIN = (6.0, 5.0)
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)

Tensors = dict[str, torch.Tensor]


def vocabulary() -> dict[str, int]:
    """One token for each byte, no merges."""
    return {word: i for i, word in enumerate([*SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet())])}


def save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary(), merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.save(str(folder / "tokenizer.json"))
    pad, bos, eos, unk = SPECIALS
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": pad,
        "bos_token": bos,
        "eos_token": eos,
        "unk_token": unk,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))


def llama_config(**changes: object) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "vocab_size": VOCAB,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    } | changes


def normal(rows: int, columns: int, std: float) -> torch.Tensor:
    return torch.empty(rows, columns, dtype=torch.bfloat16).normal_(0.0, std)


def ones(size: int) -> torch.Tensor:
    return torch.ones(size, dtype=torch.bfloat16)


def llama_layer(prefix: str, hidden: int, intermediate: int, heads: int, kv_heads: int) -> Tensors:
    query, key = heads * HEAD_DIM, kv_heads * HEAD_DIM
    std = hidden**-0.5
    return {
        f"{prefix}.input_layernorm.weight": ones(hidden),
        f"{prefix}.post_attention_layernorm.weight": ones(hidden),
        f"{prefix}.self_attn.q_proj.weight": normal(query, hidden, std),
        f"{prefix}.self_attn.k_proj.weight": normal(key, hidden, std),
        f"{prefix}.self_attn.v_proj.weight": normal(key, hidden, std),
        f"{prefix}.self_attn.o_proj.weight": normal(hidden, query, ATTENTION_GAIN),
        f"{prefix}.mlp.gate_proj.weight": normal(intermediate, hidden, std),
        f"{prefix}.mlp.up_proj.weight": normal(intermediate, hidden, std),
        f"{prefix}.mlp.down_proj.weight": normal(hidden, intermediate, MLP_GAIN),
    }


def head_over(embeddings: torch.Tensor) -> torch.Tensor:
    """An output head that gives every token two favoured successors among the printable characters.

    The first successors form one long cycle, so that greedy text does not fall into a short loop.
    """
    words = vocabulary()
    printable = torch.tensor([words[chr(code)] for code in range(33, 127)])
    hidden = embeddings.shape[1]
    head = torch.zeros(VOCAB, hidden)
    head[printable] = torch.randn(len(printable), hidden) / math.sqrt(hidden)
    following = torch.empty(VOCAB, 2, dtype=torch.long)
    following[:, 0] = printable[torch.randint(len(printable), (VOCAB,))]
    following[:, 1] = printable[torch.randint(len(printable), (VOCAB,))]
    cycle = printable[torch.randperm(len(printable))]
    following[cycle, 0] = cycle.roll(-1)
    for rank, gain in enumerate(SUCCESSOR_GAIN):
        head.index_add_(0, following[:, rank], embeddings.float() * gain / hidden)
    return head.to(torch.bfloat16)


def target() -> Tensors:
    tensors = {"model.embed_tokens.weight": normal(VOCAB, HIDDEN, 1.0), "model.norm.weight": ones(HIDDEN)}
    for layer in range(LAYERS):
        tensors |= llama_layer(f"model.layers.{layer}", HIDDEN, INTERMEDIATE, HEADS, KV_HEADS)
    tensors["lm_head.weight"] = head_over(tensors["model.embed_tokens.weight"])
    return tensors


def near_draft(full: Mapping[str, torch.Tensor]) -> Tensors:
    return {name: tensor for name, tensor in full.items() if ".layers." not in name or ".layers.0." in name}


def eagle3_head(full: Mapping[str, torch.Tensor]) -> Tensors:
    """An EAGLE3 layer that passes the newest token's embedding on to the target's head.

    Its attention looks at its own position only (a constant query and key leave the rotary phase, which peaks at
    distance 0), copies the embedding, and takes away what the draft's step before left in the residual stream.
    """
    embeddings = full["model.embed_tokens.weight"].float()
    scaled = embeddings / embeddings.pow(2).mean(1, keepdim=True).sqrt()
    basis = torch.linalg.qr(scaled.T).Q  # HIDDEN x VOCAB: all that the embeddings span
    constant = torch.linalg.pinv(scaled) @ torch.ones(VOCAB)
    query = torch.randn(HEADS, HEAD_DIM, 2 * HIDDEN) * 1e-3
    key = torch.randn(KV_HEADS, HEAD_DIM, 2 * HIDDEN) * 1e-3
    query[:, :10, :HIDDEN] = key[:, :10, :HIDDEN] = constant * 9.0
    query[:, 64:74] = key[:, 64:74] = 0.0
    value = torch.zeros(KV_HEADS * HEAD_DIM, 2 * HIDDEN)
    value[:VOCAB] = torch.cat([basis.T, -basis.T], dim=1)
    output = torch.zeros(HIDDEN, HEADS, HEAD_DIM)
    per_key = HEADS // KV_HEADS
    for start in range(0, VOCAB, HEAD_DIM):
        part = basis[:, start : start + HEAD_DIM]
        output[:, start // HEAD_DIM * per_key, : part.shape[1]] = part
    mixing = torch.randn(HIDDEN, 3 * HIDDEN) * 1e-3
    mixing -= basis @ (basis.T @ mixing)  # the target's features must not look like an embedding
    tensors = {
        "fc.weight": mixing,
        "midlayer.self_attn.q_proj.weight": query.reshape(-1, 2 * HIDDEN),
        "midlayer.self_attn.k_proj.weight": key.reshape(-1, 2 * HIDDEN),
        "midlayer.self_attn.v_proj.weight": value,
        "midlayer.self_attn.o_proj.weight": output.reshape(HIDDEN, -1),
        "midlayer.mlp.gate_proj.weight": normal(INTERMEDIATE, HIDDEN, HIDDEN**-0.5),
        "midlayer.mlp.up_proj.weight": normal(INTERMEDIATE, HIDDEN, HIDDEN**-0.5),
        "midlayer.mlp.down_proj.weight": normal(HIDDEN, INTERMEDIATE, 1e-4),
        "lm_head.weight": full["lm_head.weight"],
    }
    norms = ("midlayer.hidden_norm", "midlayer.input_layernorm", "midlayer.post_attention_layernorm", "norm")
    return (
        {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in tensors.items()}
        | {f"{name}.weight": ones(HIDDEN) for name in norms}
        | {"d2t": torch.zeros(VOCAB, dtype=torch.int64), "t2d": torch.ones(VOCAB, dtype=torch.bool)}
    )


def wrong_draft(hidden: int) -> Tensors:
    tensors = {"model.embed_tokens.weight": normal(VOCAB, hidden, 1.0), "model.norm.weight": ones(hidden)}
    tensors["lm_head.weight"] = normal(VOCAB, hidden, hidden**-0.5)
    return tensors | llama_layer("model.layers.0", hidden, 2 * hidden, hidden // HEAD_DIM, hidden // HEAD_DIM)


def save(folder: Path, config: dict[str, object], tensors: Tensors, shards: int = 1, tokenizer: bool = True) -> None:
    """Write one checkpoint. A target in several shards gives the loader's progress bar several steps."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    if tokenizer:
        save_tokenizer(folder)
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(tensors)
    files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    where = {name: files[i * shards // len(names)] for i, name in enumerate(names)}
    for file in files:
        save_file({n: tensors[n] for n in names if where[n] == file}, folder / file, metadata={"format": "pt"})
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))


def main(folder: Path) -> None:
    torch.manual_seed(0)
    full = target()
    save(folder / "tiny-llama", llama_config(), full, shards=4)
    save(folder / "tiny-draft-near", llama_config(num_hidden_layers=1), near_draft(full))
    eagle3 = llama_config(
        architectures=["LlamaForCausalLMEagle3"],
        num_hidden_layers=1,
        draft_vocab_size=VOCAB,
        target_hidden_size=HIDDEN,
        eagle_config={"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [0, 1, 2]},
    )
    save(folder / "tiny-eagle3", eagle3, eagle3_head(full), tokenizer=False)
    narrow = llama_config(
        num_hidden_layers=1, hidden_size=256, intermediate_size=512, num_attention_heads=2, num_key_value_heads=2
    )
    save(folder / "tiny-draft", narrow, wrong_draft(256))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
