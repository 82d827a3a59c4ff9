"""What `--policies` and `--ratios` mean."""

from __future__ import annotations

import pytest

from conduit_cli.bench.contenders import PRESETS, cells, parse_policies, parse_ratios
from conduit_cli.bench.running import Plan
from conduit_cli.errors import UsageError


def test_names_and_options() -> None:
    found = parse_policies(["conduit,reuse", "conduit:lambda=0.5,norm=false,layers=0-3,8;first-k:k=4"])
    assert [c.label for c in found] == ["conduit", "reuse", "conduit:lambda=0.5,norm=false,layers=0-3,8", "first-k:k=4"]
    assert found[2].options == {"lambda": 0.5, "norm": False, "layers": "0-3,8"}
    assert found[3].options == {"k": 4}


def test_policies_without_a_budget_are_run_once_and_full_always() -> None:
    keys = [cell.key for cell in cells(parse_policies(["conduit,reuse"]), [0.1, 0.2])]
    assert keys == ["conduit@0.1", "conduit@0.2", "reuse@0", "full@1"]


@pytest.mark.parametrize("text", ["nosuch", "conduit:lambda", "conduit:=3", "", ",;"])
def test_policies_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError):
        parse_policies([text])


@pytest.mark.parametrize("text", ["conduit:lambda=3", "conduit:colour=red", "full:k=3"])
def test_options_are_refused_before_any_work(text: str) -> None:
    with pytest.raises(UsageError):
        Plan(parse_policies([text]), [0.1])


def test_ratios() -> None:
    assert parse_ratios("1, 0.05,0,0.05") == [0.0, 0.05, 1.0]
    for text in ("", "x", "0.1,2", "-1", "nan"):
        with pytest.raises(UsageError):
            parse_ratios(text)


def test_presets_are_made_of_policies_that_exist() -> None:
    for texts in PRESETS.values():
        named = [text.format(last=5, middle=3, third=2) for text in texts]
        assert len(Plan(parse_policies(named), [0.1]).contenders) == len(texts)
