"""How tensors are put into bytes: `exact`, `bf16`, `int8`.

`int8` touches keys and values only. Keys get one scale and one centre per channel (over the page's
tokens): key projections have biases that put whole channels far from zero, and a centre takes the bias
out. Values get one scale per token. In float32, the error is at most half a step:
(max - min) / 508 of a key's channel, max|v| / 254 of a token's value vector, plus the rounding of the
tensor's own dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from conduit_store.errors import StoreError

__all__ = ["CODECS", "decode", "encode"]

CODECS = ("exact", "bf16", "int8")
Fetch = Callable[[str], Tensor]


def encode(codec: str, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, dict[str, str]]]:
    """Turn a page's tensors into those that are stored.

    Returns:
        the stored tensors by name, and for each original name `{"scheme", "dtype"}` for `decode`.

    Raises:
        StoreError: an unknown codec, or numbers that `int8` can't hold.
    """
    if codec not in CODECS:
        raise StoreError(f"{codec!r} is not a codec of the store", f"choose one of {', '.join(CODECS)}")
    stored: dict[str, Tensor] = {}
    schemes: dict[str, dict[str, str]] = {}
    for name, tensor in tensors.items():
        if "." in name or not name:
            raise StoreError(f"{name!r} can't be a tensor's name: names are non-empty and have no dot")
        scheme = _scheme(codec, name, tensor)
        schemes[name] = {"scheme": scheme, "dtype": str(tensor.dtype).removeprefix("torch.")}
        stored |= _encode_one(scheme, name, tensor.detach().to("cpu"))
    return stored, schemes


def _scheme(codec: str, name: str, tensor: Tensor) -> str:
    if codec == "bf16" and name != "value_norms" and tensor.dtype in (torch.float32, torch.float64):
        return "bf16"
    if codec == "int8" and tensor.is_floating_point() and tensor.numel():
        return {"keys": "int8-channel", "values": "int8-token"}.get(name, "raw")
    return "raw"


def _encode_one(scheme: str, name: str, tensor: Tensor) -> dict[str, Tensor]:
    if scheme == "raw":
        return {name: tensor}
    if scheme == "bf16":
        return {name: tensor.to(torch.bfloat16)}
    wide = tensor.float()
    if not bool(torch.isfinite(wide).all()):
        raise StoreError(f"the page's {name} hold infinities or NaN, which int8 can't store", "--codec exact")
    if scheme == "int8-token":
        scale = wide.abs().amax(dim=-1, keepdim=True) / 127
        return {name: _quantise(wide, scale), f"{name}.scale": scale}
    low, high = wide.amin(dim=-2, keepdim=True), wide.amax(dim=-2, keepdim=True)
    centre = low / 2 + high / 2
    scale = (high / 2 - low / 2) / 127
    return {name: _quantise(wide - centre, scale), f"{name}.scale": scale, f"{name}.centre": centre}


def _quantise(wide: Tensor, scale: Tensor) -> Tensor:
    steps = wide / torch.where(scale > 0, scale, torch.ones_like(scale))
    return steps.round().clamp(-127, 127).to(torch.int8)


def decode(scheme: Mapping[str, str], name: str, fetch: Fetch) -> Tensor:
    """Rebuild one tensor (or one layer of it: whatever `fetch` returns for the stored names).

    Returns:
        a tensor of the original dtype; for `raw` it is `fetch(name)` itself, without a copy.
    """
    kind = scheme["scheme"]
    stored = fetch(name)
    if kind == "raw":
        return stored
    dtype: torch.dtype = getattr(torch, scheme["dtype"])
    if kind == "bf16":
        return stored.to(dtype)
    wide = stored.float().mul_(fetch(f"{name}.scale"))
    if kind == "int8-channel":
        wide.add_(fetch(f"{name}.centre"))
    return wide.to(dtype)
