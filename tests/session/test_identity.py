"""A page asked about after anything changed that its state depends on is a miss; else it is a hit."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from conduit_cli import AskOptions, Model, Session, load_model
from conduit_cli.models.locate import bundled_folder
from conduit_store import Store
from tests.session.conftest import Ear, MakePdf, request

PAGES = [["Total: 4711"], ["Total: 93"], ["Total: 618"]]


def _disk(store: Store) -> dict[str, tuple[int, int]]:
    files = (path for path in store.path.rglob("*") if path.is_file() and path.name != "lock.mdb")
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def test_a_second_ingest_runs_no_forward_and_writes_no_byte(session: Session, store: Store, pdf: MakePdf) -> None:
    path = pdf(PAGES)
    assert session.ingest(request(path)).count("stored") == 3
    before, forwards = _disk(store), []
    handle = session.model.vlm.decoder.text_model.register_forward_pre_hook(lambda *_: forwards.append(1))
    report = session.ingest(request(path))
    handle.remove()
    assert (report.count("present"), report.nbytes, forwards) == (3, 0, [])
    assert _disk(store) == before
    assert [page.tokens for page in report.pages] == [96, 96, 96]


def test_bytes_written_are_once_the_entries(session: Session, store: Store, pdf: MakePdf) -> None:
    report = session.ingest(request(pdf(PAGES)))
    assert report.nbytes == sum(entry.nbytes for entry in store.entries())


def test_what_a_question_changes_is_a_hit(session: Session, store: Store, pdf: MakePdf, ear: Ear) -> None:
    path = pdf(PAGES)
    session.ingest(request(path))
    ear.pages.clear()
    for options in (
        AskOptions(ratio=0.5),
        AskOptions(policy="reuse"),
        AskOptions(temperature=1.0, seed=3, system="Be brief.", instruction="Look."),
    ):
        answer = session.ask(request(path), "What is the total?", options)
        assert all(page.cached for page in answer.pages)
    assert {page.status for page in ear.pages} == {"present"}
    assert len(store.entries()) == 3


def test_the_same_page_in_two_files_is_stored_once(session: Session, store: Store, pdf: MakePdf) -> None:
    session.ingest(request(pdf(PAGES, "a.pdf")))
    report = session.ingest(request(pdf([*PAGES, ["Total: 5"]], "b.pdf")))
    assert (report.count("present"), report.count("stored")) == (3, 1)
    assert len(store.entries()) == 4


def test_two_pages_of_one_size_have_two_keys(session: Session, pdf: MakePdf) -> None:
    keys = [page.key for page in session.ingest(request(pdf(PAGES))).pages]
    assert len(set(keys)) == 3
    assert all(key is not None and len(key) == 64 for key in keys)


def test_a_document_changed_in_place_is_ingested_again(session: Session, pdf: MakePdf) -> None:
    path = pdf([["Total: 4711"]])
    session.ingest(request(path))
    stamp = path.stat()
    pdf([["Total: 9999"]])
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert session.ingest(request(path)).count("stored") == 1


def _variant(tmp_path: Path, change: str) -> Path:
    """The bundled model under the same folder name, with one thing changed."""
    folder = tmp_path / change / "reader"
    shutil.copytree(bundled_folder(), folder)
    if change == "weights":
        weights = load_file(folder / "model.safetensors")
        name = sorted(weights)[0]
        weights[name].view(-1)[0] += 1
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    elif change == "processor":
        settings = json.loads((folder / "preprocessor_config.json").read_text())
        settings["image_mean"] = [0.4, 0.5, 0.5]
        (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    elif change == "template":
        template = folder / "chat_template.jinja"
        template.write_text("<|im_start|>system\nhello<|im_end|>\n" + template.read_text())
    return folder


@pytest.mark.parametrize("change", ["weights", "processor", "template"])
def test_another_model_under_the_same_name_is_a_miss(tmp_path: Path, store: Store, pdf: MakePdf, change: str) -> None:
    path = pdf([["Total: 4711"]])
    first = load_model(str(_variant(tmp_path, "same")))
    Session(first, store).ingest(request(path))
    changed = load_model(str(_variant(tmp_path, change)))
    changed = replace(changed, identity={**changed.identity, "model_name": first.identity["model_name"]})
    assert Session(changed, store).ingest(request(path)).count("stored") == 1
    again = load_model(str(tmp_path / "same" / "reader"))
    assert Session(again, store).ingest(request(path)).count("present") == 1


@pytest.mark.parametrize("options", [{"dtype": "bfloat16"}, {"max_pixels": 50_000}], ids=["dtype", "max_pixels"])
def test_another_dtype_or_budget_is_a_miss(
    model: Model, store: Store, pdf: MakePdf, options: dict[str, object]
) -> None:
    path = pdf([["Total: 4711"]])
    Session(model, store).ingest(request(path))
    other = load_model("bundled", **options)  # type: ignore[arg-type]
    assert Session(other, store).ingest(request(path)).count("stored") == 1


def test_another_codec_is_a_miss(model: Model, store: Store, pdf: MakePdf) -> None:
    path = pdf([["Total: 4711"]])
    for codec in ("exact", "bf16", "int8"):
        assert Session(model, store, codec=codec).ingest(request(path)).count("stored") == 1
    sizes = {entry.identity["codec"]: entry.nbytes for entry in store.entries()}
    assert sizes["int8"] < sizes["bf16"] < sizes["exact"]


def test_bfloat16_pages_placed_where_they_were_built_need_no_refresh(store: Store, pdf: MakePdf) -> None:
    model = load_model("bundled", dtype="bfloat16")
    session = Session(model, store)
    path = pdf([["Total: 4711"]])
    reuse, full = (
        session.ask(request(path), "What is the total?", AskOptions(policy=policy)).answer
        for policy in ("reuse", "full")
    )
    assert reuse == full
    assert next(model.vlm.model.parameters()).dtype is torch.bfloat16
