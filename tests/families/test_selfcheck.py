"""The self-check passes what is right, finds what is wrong, and is done once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers.models.llama import modeling_llama

from conduit_cli import open_store
from conduit_cli.errors import ModelError
from conduit_cli.models.loading import load
from conduit_cli.reports import Listener
from conduit_cli.session.selfcheck import check, ensure_checked
from tests.families.conftest import Case


class Ear(Listener):
    """Remembers notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def llava(cases: Callable[[str], Case]) -> Case:
    return cases("llava")


class _Deaf:
    """An attention class's own idea of attention, whatever is registered."""

    @staticmethod
    def get_interface(_name: str, default: object) -> object:
        return default


def test_every_family_passes(case: Case) -> None:
    verdict = check(case.model)
    assert verdict.passed, verdict
    assert verdict.difference is not None
    assert verdict.difference <= 1e-4


def test_attention_that_ignores_what_is_registered_is_found(llava: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modeling_llama, "ALL_ATTENTION_FUNCTIONS", _Deaf())
    verdict = check(llava.model)
    assert not verdict.passed
    assert verdict.problem == "the attention of 3 of its layers ignores the registered attention function"


def test_positions_that_are_not_the_stock_ones_are_found(llava: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        llava.vlm, "positions", lambda ids, _image_of, _layouts: torch.arange(len(ids))[None] * 2, raising=True
    )
    verdict = check(llava.model)
    assert not verdict.passed
    assert verdict.problem == "its logits are not those of its stock full prefill"


def test_a_verdict_is_remembered_until_the_model_changes(llava: Case, tmp_path: Path) -> None:
    ear = Ear()
    with open_store(tmp_path / "store") as store:
        ensure_checked(llava.model, store, ear)
        ensure_checked(llava.model, store, ear)
        assert len(ear.notes) == 1
        other = replace(llava.model, identity={**llava.model.identity, "model": "other weights"})
        ensure_checked(other, store, ear)
        assert len(ear.notes) == 2


def test_a_failure_is_remembered_too(llava: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "store") as store:
        with monkeypatch.context() as patch:
            patch.setattr(modeling_llama, "ALL_ATTENTION_FUNCTIONS", _Deaf())
            with pytest.raises(ModelError, match="ignores the registered attention function"):
                ensure_checked(llava.model, store, Ear())
        with pytest.raises(ModelError, match="ignores the registered attention function"):
            ensure_checked(llava.model, store, Ear())


def test_the_bundled_model_is_not_checked(tmp_path: Path) -> None:
    ear = Ear()
    with open_store(tmp_path / "store") as store:
        ensure_checked(load("bundled"), store, ear)
    assert ear.notes == []
