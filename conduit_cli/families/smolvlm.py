"""SmolVLM: as Idefics3."""

from __future__ import annotations

from conduit_cli.families.idefics3 import Idefics3

__all__ = ["SmolVLM"]


class SmolVLM(Idefics3):
    """`SmolVLMForConditionalGeneration`."""

    name = "SmolVLM"
