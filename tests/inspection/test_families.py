"""Every family that reports a grid: its cells lie where its own processor put the pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from conduit_cli import AskOptions, DocumentRequest, Session
from conduit_cli.models.loading import load
from conduit_cli.session.inspecting import inspect_question, page_picture
from conduit_store import Store
from tests.families.tiny import MATRIX

GRIDS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava", "gemma3")
SIZE = (150, 96)
SPOTS = ((75, 48), (40, 20), (101, 80))


def _redness(pixels: torch.Tensor) -> np.ndarray:
    """Red less blue of processed pixels, channels first."""
    return (pixels[0] - pixels[2]).numpy()


def _token_of(processed: dict[str, torch.Tensor], grid: tuple[int, int], merge: int) -> int:
    """The token whose pixels are reddest, from the processor's output."""
    pixels = processed["pixel_values"]
    if pixels.ndim == 2:  # patches, those of one token side by side
        patches = pixels.reshape(-1, merge**2, 3, pixels.shape[1] // 3)
        return int((patches[:, :, 0] - patches[:, :, 2]).mean((1, 2)).argmax())
    return _cell(_reddest(_redness(pixels[0])), grid)


def _cell(place: tuple[float, float], grid: tuple[int, int]) -> int:
    return int(place[0] * grid[0]) * grid[1] + int(place[1] * grid[1])


def _reddest(redness: np.ndarray) -> tuple[float, float]:
    """The middle of what is red, as fractions of the height and the width."""
    mask = redness > redness.min() + 0.5 * (redness.max() - redness.min())
    rows, columns = np.nonzero(mask)
    return (rows.mean() + 0.5) / redness.shape[0], (columns.mean() + 0.5) / redness.shape[1]


@pytest.mark.parametrize("spot", SPOTS)
@pytest.mark.parametrize("family", GRIDS)
def test_a_red_spot_lies_in_its_tokens_cell(family: str, spot: tuple[int, int], store: Store, tmp_path: Path) -> None:
    model = load(str(MATRIX[family].save(tmp_path / "model")))
    image = Image.new("RGB", SIZE, "white")
    image.paste((230, 0, 0), (spot[0] - 2, spot[1] - 2, spot[0] + 3, spot[1] + 3))
    image.save(tmp_path / "spot.png")
    with Session(model, store).conversation(
        [DocumentRequest(tmp_path / "spot.png")], AskOptions(max_new_tokens=1)
    ) as conversation:
        grid = inspect_question(conversation, "Where?").pages[0].share.grid
        drawn = page_picture(conversation, 0, 1600)
    assert grid is not None
    merge = int(getattr(model.vlm.image_processor, "merge_size", 1))
    processed = model.vlm.process([image])
    place = _reddest(_redness(torch.from_numpy(np.asarray(drawn).astype(np.float32)).permute(2, 0, 1)))
    assert _cell(place, grid) == _token_of(processed, grid, merge)
    if processed["pixel_values"].ndim == 4:  # a whole picture: the very place can be compared
        assert place == pytest.approx(_reddest(_redness(processed["pixel_values"][0])), abs=0.03)


def test_a_family_of_tiles_reports_no_grid(store: Store, tmp_path: Path) -> None:
    model = load(str(MATRIX["internvl"].save(tmp_path / "model")))
    Image.new("RGB", SIZE, "white").save(tmp_path / "page.png")
    with Session(model, store).conversation(
        [DocumentRequest(tmp_path / "page.png")], AskOptions(max_new_tokens=1)
    ) as conversation:
        page = inspect_question(conversation, "Where?").pages[0]
    assert page.share.grid is None
    assert len(page.scores or ()) == page.share.tokens
