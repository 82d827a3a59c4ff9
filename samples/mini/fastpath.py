"""Same mathematics as the stock model, faster on a CPU, and queries and keys kept for the attention losses."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from transformers import AttentionInterface
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen

Tensor = torch.Tensor
KEPT: dict[int, tuple[Tensor, Tensor, float]] = {}


def embed_patches(self: Any, patches: Tensor) -> Tensor:
    """Patch embedding of grey patches: the 3-D convolution as one linear layer."""
    weight = self.proj.weight.view(self.embed_dim, -1, patches.shape[-1]).sum(1)
    return F.linear(patches, weight)


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    """Attention by plain products [n, heads, length, size]; on short rows the kernel's backward is slower."""
    n, heads, length, size = q.shape
    mask = q.new_full((length, length), float("-inf")).triu(1) if causal else q.new_zeros(1, 1)
    a, b, c = (t.reshape(n * heads, length, size) for t in (q, k, v))
    return torch.bmm(torch.baddbmm(mask, a, b.transpose(1, 2), alpha=scale).softmax(-1), c).view(q.shape)


def vision_attention(
    self: Any, hidden_states: Tensor, cu_seqlens: Tensor, position_embeddings: Any = None, **_: Any
) -> Tensor:
    """Attention in equal windows as one batched call; unequal ones are grouped by length."""
    total = hidden_states.shape[0]
    q, k, v = self.qkv(hidden_states).reshape(total, 3, self.num_heads, -1).permute(1, 0, 2, 3).unbind(0)
    q, k = qwen.apply_rotary_pos_emb_vision(q, k, *position_embeddings)
    lengths = cu_seqlens.diff()
    out = torch.empty_like(v)
    for length in sorted(set(lengths.tolist())):
        starts = cu_seqlens[:-1][lengths == length]
        rows = starts[:, None] + torch.arange(length)
        part = attend(*(t[rows].transpose(1, 2) for t in (q, k, v)), q.shape[-1] ** -0.5, False)
        out = out.index_put((rows,), part.transpose(1, 2))
    mixed: Tensor = self.proj(out.reshape(total, -1))
    return mixed


def keeping_attention(
    module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scaling: float = 1.0, **_: Any
) -> tuple[Tensor, None]:
    """Plain causal attention that also remembers the layer's queries and keys."""
    KEPT[module.layer_idx] = (q, k, scaling)
    shared = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    return attend(q, k, v, scaling, True).transpose(1, 2).contiguous(), None


def install(model: Any) -> None:
    """Switch a model to the fast path, for training only."""
    qwen.Qwen2_5_VisionPatchEmbed.forward = embed_patches
    qwen.Qwen2_5_VLVisionAttention.forward = vision_attention
    AttentionInterface.register("mini-keeping", keeping_attention)
    model.model.language_model.config._attn_implementation = "mini-keeping"


def attention_loss(layer: int, head: int, rows: Tensor, goals: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy of one head's attention with its goals.

    `rows` [n, 2] holds (sample, token), ordered by sample; `goals` [n, m] the tokens to look at, padded with -1.
    Returns the loss and the share of rows whose strongest key is a goal.
    """
    q, k, scale = KEPT[layer]
    shared = q.shape[1] // k.shape[1]
    queries, keys = q[:, head], k[:, head // shared]
    total, hits = queries.new_zeros((), dtype=torch.float32), 0.0
    index = torch.arange(q.shape[2])
    counts = torch.bincount(rows[:, 0], minlength=len(q)).tolist()
    for b, (at, goal) in enumerate(zip(torch.split(rows[:, 1], counts), torch.split(goals, counts), strict=True)):
        scores = (queries[b, at] @ keys[b].T).float() * scale
        scores = scores.masked_fill(index > at[:, None], -1e9)
        wanted = scores.gather(1, goal.clamp(min=0)).masked_fill(goal < 0, -1e9)
        total = total - (wanted.logsumexp(-1) - scores.logsumexp(-1)).sum()
        if len(at):
            hits += float((scores.detach().argmax(-1, keepdim=True) == goal).any(-1).sum())
    return total / max(len(rows), 1), torch.tensor(hits / max(len(rows), 1))


def window_order(grid: Tensor) -> Tensor:
    """Order that undoes the vision tower's window permutation."""
    order, _ = qwen.get_vision_window_index(grid, spatial_merge_size=2, window_size=112, patch_size=14)
    return torch.argsort(order)
