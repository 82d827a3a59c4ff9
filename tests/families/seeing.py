"""Which tokens saw a change of a page: read from the stock vision tower, with its attention silenced."""

from __future__ import annotations

import torch
from PIL import Image
from torch import Tensor

from conduit_cli.families.base import Family

__all__ = ["changed", "silenced", "with_spot"]

_OUTPUTS = {"out_proj", "proj", "projection_layer"}


def silenced(vlm: Family) -> Family:
    """Let no patch tell another: what remains of the tower, projector and merger shows which patches are a token's."""
    count = 0
    for name, module in vlm.model.named_modules():
        parent, _, own = name.rpartition(".")
        if ("vision" in name or "visual" in name) and "att" in parent.rpartition(".")[2] and own in _OUTPUTS:
            for parameter in module.parameters():
                torch.nn.init.zeros_(parameter)
            count += 1
    assert count >= 2, "every tiny tower has two layers, some a head besides"
    return vlm


def with_spot(image: Image.Image, left: int, top: int, right: int, bottom: int) -> Image.Image:
    """The same with a red rectangle."""
    spotted = image.copy()
    spotted.paste((230, 0, 0), (left, top, right, bottom))
    return spotted


def changed(vlm: Family, before: Image.Image, after: Image.Image) -> Tensor:
    """How far each visual token [n] of one picture is from that of another."""
    return (vlm.encode_image(after).embeddings - vlm.encode_image(before).embeddings).abs().amax(1)
