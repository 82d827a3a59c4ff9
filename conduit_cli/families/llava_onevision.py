"""LLaVA-OneVision: as LLaVA-NeXT, with the tiles pooled where there are many."""

from __future__ import annotations

import math
from typing import Any

from conduit_cli.families.llava_next import LlavaNext

__all__ = ["LlavaOneVision"]

_TILES = 9


class LlavaOneVision(LlavaNext):
    """`LlavaOnevisionForConditionalGeneration`.

    A page is stored with its tiles whatever stands beside it later, as the stock model does for images
    that are each a batch entry of their own (`batch_num_images` of 1).
    """

    name = "LLaVA-OneVision"

    @staticmethod
    def default_max_pixels(image_processor: Any) -> int:
        """As many tiles as the model keeps unpooled ("anyres_max_9")."""
        side = int(image_processor.size["height"])
        return min(LlavaNext.default_max_pixels(image_processor), _TILES * side * side)

    def _rows_and_columns(self, width: int, height: int) -> tuple[int, int]:
        """Beyond so many tiles, features are pooled (bilinear)."""
        rows, columns = self._unpadded(width, height)
        tiles = int(self.config.vision_aspect_ratio.removeprefix("anyres_max_"))
        ratio = math.sqrt(rows * columns / (tiles * self._side**2))
        return (int(rows // ratio), int(columns // ratio)) if ratio > 1.1 else (rows, columns)
