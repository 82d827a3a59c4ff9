"""Every family of the matrix, saved once and loaded the way a user's model is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import torch
from PIL import Image

from conduit_cli.engine.prefill import FreshPage, prefill_page
from conduit_cli.families.base import Family
from conduit_cli.models.loading import Model, load
from tests.families.stock import Stock
from tests.families.tiny import MATRIX, Tiny


@dataclass(frozen=True)
class Case:
    """One family: as loaded by Conduit, and as the stock classes load it."""

    tiny: Tiny
    folder: Path
    model: Model
    stock: Stock
    images: list[Image.Image]
    pages: list[FreshPage]

    @property
    def vlm(self) -> Family:
        return self.model.vlm


def pictures(tiny: Tiny) -> list[Image.Image]:
    """Noise over a ramp, so that no two patches are alike."""
    torch.manual_seed(1)
    return [
        Image.effect_noise(size, 60 + 30 * index).convert("RGB").rotate(index, fillcolor="white")
        for index, size in enumerate(tiny.sizes)
    ]


def build(name: str, folder: Path) -> Case:
    """Save one family's tiny model, load it, and prefill its pictures."""
    tiny = MATRIX[name]
    tiny.save(folder)
    model = load(str(folder))
    images = pictures(tiny)
    pages = [prefill_page(model.vlm, image) for image in images]
    return Case(tiny, folder, model, Stock(tiny, folder), images, pages)


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Case]]:
    """A family's case by name, built when first asked for."""
    with pytest.MonkeyPatch.context() as patch:
        # SmolVLM's processor wants this package for the words of video prompts only
        patch.setattr("transformers.models.smolvlm.processing_smolvlm.num2words", str)
        yield cache(lambda name: build(name, tmp_path_factory.mktemp("models") / name))


@pytest.fixture(params=list(MATRIX), scope="session")
def case(request: pytest.FixtureRequest, cases: Callable[[str], Case]) -> Case:
    """Each family in turn."""
    return cases(request.param)
