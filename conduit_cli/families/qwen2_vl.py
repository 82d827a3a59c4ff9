"""Qwen2-VL: as Qwen2.5-VL, over another vision tower."""

from __future__ import annotations

from conduit_cli.families.qwen2_5_vl import Qwen25VL

__all__ = ["Qwen2VL"]


class Qwen2VL(Qwen25VL):
    """`Qwen2VLForConditionalGeneration`."""

    name = "Qwen2-VL"
