"""The one function that NGRAM drafting needs, on the CPU."""

import torch


def reconstruct_indices_from_tree_mask(
    tree_mask,
    verified_seq_len,
    positions,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    batch_size,
    draft_token_num,
):
    """Fill positions and child/sibling links of each request's draft tree from its ancestor mask."""
    n = draft_token_num
    masks = tree_mask.view(-1)[: batch_size * n * n].view(batch_size, n, n).bool()
    below = torch.tril(torch.ones(n, n, dtype=torch.bool), -1)
    for b in range(batch_size):
        ancestors = masks[b] & below
        length = int(verified_seq_len[b])
        parent = [max(torch.nonzero(ancestors[i]).view(-1).tolist(), default=-1) for i in range(n)]
        for i in range(n):
            children = [k for k in range(i + 1, n) if ancestors[k, i]]
            siblings = [k for k in range(i + 1, n) if parent[i] >= 0 and parent[k] == parent[i]]
            positions.view(-1)[b * n + i] = int(ancestors[i].sum()) + length
            retrive_index[b, i] = b * n + i
            retrive_next_token[b, i] = min(children, default=-1)
            retrive_next_sibling[b, i] = min(siblings, default=-1)
