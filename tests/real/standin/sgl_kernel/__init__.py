"""Stand-in for sgl_kernel on a CPU without AMX.

Plain torch for the few *_cpu helpers that SGLang imports at module level when SGLANG_USE_CPU_ENGINE=1. Any other name
is a function that raises when it is called.
"""

import ctypes
import os

import torch

__version__ = "0.4.10"
# Tests that want an exception inside a running scheduler set this: longer sequences fail as a kernel would.
MAX_LENGTH = int(os.environ.get("SPECDECK_STANDIN_MAX_LENGTH", "0"))


def assign_req_to_token_pool_cpu(req, table, start, end, out_loc, pool_len):
    taken = 0
    for r, s, e in zip(req.tolist(), start.tolist(), end.tolist(), strict=True):
        table[r, s:e] = out_loc[taken : taken + e - s].to(table.dtype)
        taken += e - s


def assign_extend_cache_locs_cpu(req, table, start, end, out_loc, pool_len):
    taken = 0
    for r, s, e in zip(req.tolist(), start.tolist(), end.tolist(), strict=True):
        out_loc[taken : taken + e - s] = table[r, s:e].to(out_loc.dtype)
        taken += e - s


def assign_draft_cache_locs_contiguous_cpu(req, table, seq_lens, out_loc, pool_len, topk, steps):
    n = topk * steps
    for i, (r, s) in enumerate(zip(req.tolist(), seq_lens.tolist(), strict=True)):
        out_loc[i * n : (i + 1) * n] = table[r, s : s + n].to(out_loc.dtype)


def fill_bonus_tokens_cpu(tokens, lens, bonus, stride):
    flat = tokens.reshape(-1)
    for i, n in enumerate(lens.tolist()):
        bonus[i] = flat[stride * i + n - 1]


def fill_accept_out_cache_loc_cpu(accept_index, out_loc, accept_out_loc):
    flat = accept_index.reshape(-1)
    src = flat[flat > -1].long()
    accept_out_loc[: src.numel()] = out_loc[src]


def rotate_input_ids_cpu(ids, start, lens, topk_index, select=None):
    for i, (s, n) in enumerate(zip(start.tolist(), lens.tolist(), strict=True)):
        if n <= 0:
            continue
        ids[s : s + n - 1] = ids[s + 1 : s + n].clone()
        last = int(select[i]) if select is not None else s + n - 1
        ids[last] = topk_index.reshape(-1)[i]


def copy_all_layer_kv_cache_cpu(data_ptrs, strides, target, source):
    pairs = [(t, s) for t, s in zip(target.tolist(), source.tolist(), strict=True) if t != s]
    for base, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(base + s * stride, stride) for _, s in pairs]
        for (t, _), row in zip(pairs, rows, strict=True):
            ctypes.memmove(base + t * stride, row, stride)


def _tree_parents(parents, selected, topk, num):
    """Position in the verify tree of each selected node's parent; -1 where there is none."""
    found = [-1] * num
    for i in range(1, num):
        at = selected[i - 1] // topk
        if at == 0:
            found[i] = 0
        elif parents[at] in selected[: num - 1]:
            found[i] = selected.index(parents[at]) + 1
    return found


def build_tree_kernel_efficient_cpu(
    parent_list, selected, seq_lens, mask, positions, r_index, r_next, r_sib, topk, depth, num, mode
):
    flat = mask.view(-1)
    parents, chosen = parent_list.tolist(), selected.tolist()
    offset = 0
    for b, length in enumerate(seq_lens.tolist()):
        prefix = length if int(mode) == 0 else 0
        above = _tree_parents(parents[b], chosen[b], topk, num)
        for i in range(num):
            row = offset + i * (num + prefix) + prefix
            flat[row : row + num] = False
            flat[row] = True
            at, steps = i, 0
            while at > 0:
                flat[row + at] = True
                steps += 1
                at = above[at]
            positions[b * num + i] = length + steps
            r_index[b, i] = b * num + i
        offset += num * (num + prefix)
        following, sibling = [-1] * num, [-1] * num
        for i in range(num - 1, 0, -1):
            if above[i] >= 0:
                sibling[i] = following[above[i]]
                following[above[i]] = i
        r_next[b] = torch.tensor(following, dtype=r_next.dtype)
        r_sib[b] = torch.tensor(sibling, dtype=r_sib.dtype)


def verify_tree_greedy_cpu(
    predicts,
    accept_index,
    accept_token_num,
    candidates,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    target_predict,
):
    steps = accept_index.shape[1]
    tokens, index = candidates.tolist(), retrive_index.tolist()
    following, sibling = retrive_next_token.tolist(), retrive_next_sibling.tolist()
    wanted = target_predict.reshape(-1).tolist()
    for b in range(candidates.shape[0]):
        last = index[b][0]
        accept_index[b, 0] = last
        accepted, at = 0, 0
        for _ in range(1, steps):
            at = following[b][at]
            while at != -1 and tokens[b][at] != wanted[last]:
                at = sibling[b][at]
            if at == -1:
                break
            predicts[last] = wanted[last]
            last = index[b][at]
            accepted += 1
            accept_index[b, accepted] = last
        accept_token_num[b] = accepted
        predicts[last] = wanted[last]


def _attend(q, keys, values, rows, mask, scale, cap):
    k = keys[rows].transpose(0, 1).float()
    v = values[rows].transpose(0, 1).float()
    query = q.transpose(0, 1).float()
    group = query.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    weights = torch.matmul(query, k.transpose(1, 2)) * scale
    if cap and cap > 0:
        weights = cap * torch.tanh(weights / cap)
    if mask is not None:
        weights = weights.masked_fill(~mask, float("-inf"))
    return torch.matmul(torch.softmax(weights, -1), v).transpose(0, 1).to(q.dtype)


def _extend_attention_cpu(
    q,
    k,
    v,
    o,
    keys,
    values,
    k_scale,
    v_scale,
    table,
    req,
    seq_lens,
    extend_lens,
    extend_start,
    max_extend,
    scale,
    cap,
    cross,
    window,
    encoder,
    sinks,
    tree_mask,
    is_causal=True,
):
    taken = 0
    for r, length, n, s in zip(
        req.tolist(), seq_lens.tolist(), extend_lens.tolist(), extend_start.tolist(), strict=True
    ):
        if n == 0:
            continue
        if MAX_LENGTH and length > MAX_LENGTH:
            raise RuntimeError(f"extend_attention: sequence of {length} tokens is longer than {MAX_LENGTH}")
        at = torch.arange(length)[None]
        query_at = torch.arange(length - n, length)[:, None]
        mask = (at <= query_at) if is_causal else torch.ones(n, length, dtype=torch.bool)
        if window and window > 0:
            mask = mask & (at > query_at - window)
        if tree_mask is not None:
            mask[:, length - n :] = tree_mask.view(-1)[taken : taken + n * n].view(n, n).bool()
            taken += n * n
        o[s : s + n] = _attend(q[s : s + n], keys, values, table[r, :length].long(), mask, scale, cap)


def _decode_attention_cpu(
    q,
    keys,
    values,
    k_scale,
    v_scale,
    o,
    k,
    v,
    loc,
    logits,
    table,
    req,
    seq_lens,
    scale,
    cap,
    cross,
    window,
    encoder,
    sinks,
):
    if k is not None:
        keys[loc] = k.view(-1, *keys.shape[1:]).to(keys.dtype)
        values[loc] = v.view(-1, *values.shape[1:]).to(values.dtype)
    for i, (r, length) in enumerate(zip(req.tolist(), seq_lens.tolist(), strict=True)):
        first = max(0, length - window) if window and window > 0 else 0
        o[i : i + 1] = _attend(q[i : i + 1], keys, values, table[r, first:length].long(), None, scale, cap)


torch.ops.sgl_kernel.extend_attention_cpu = _extend_attention_cpu
torch.ops.sgl_kernel.decode_attention_cpu = _decode_attention_cpu


def build_draft_decode_metadata_cpu(table, req, seq_lens, topk, steps, pool_len):
    out = torch.zeros(req.numel() * topk, pool_len, dtype=table.dtype)
    for i, (r, length) in enumerate(zip(req.tolist(), seq_lens.tolist(), strict=True)):
        for t in range(topk):
            row = out[i * topk + t]
            row[:length] = table[r, :length]
            drafted = table[r, length + t * steps : length + (t + 1) * steps]
            row[length : length + drafted.numel()] = drafted
    return out


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args, **kwargs):
        raise NotImplementedError(f"the sgl_kernel stand-in has no {name}")

    missing.__name__ = name
    return missing
