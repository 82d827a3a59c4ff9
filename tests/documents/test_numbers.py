"""`--pages`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conduit_cli.documents import format_pages, parse_pages
from conduit_cli.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("1-4,7", [1, 2, 3, 4, 7]),
        ("7, 1 - 2", [1, 2, 7]),
        ("3,3,2-3", [2, 3]),
        ("-2", [1, 2]),
        ("8-", [8, 9]),
        ("9", [9]),
        ("2–3", [2, 3]),
    ],
)
def test_ranges(text: str | None, expected: list[int]) -> None:
    assert parse_pages(text, 9) == expected


@pytest.mark.parametrize(
    "text", ["", " ", ",", "1,", "a", "1-2-3", "-", "0", "0-3", "4-2", "1.5", "+1", "١", "9" * 5000]
)
def test_nonsense(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pages(text, 9)
    assert caught.value.exit_code == 2 and caught.value.hint
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["10", "1-10", "10-", "999999999"])
def test_beyond_the_end_names_the_count(text: str) -> None:
    with pytest.raises(UsageError, match="the document has 9 pages"):
        parse_pages(text, 9)


@given(st.sets(st.integers(1, 60), min_size=1))
def test_format_is_the_inverse(numbers: set[int]) -> None:
    assert parse_pages(format_pages(numbers), 60) == sorted(numbers)


@given(st.text(max_size=12))
def test_any_text_gives_pages_or_a_usage_error(text: str) -> None:
    try:
        numbers = parse_pages(text, 30)
    except UsageError as error:
        assert error.hint
    else:
        assert numbers and all(1 <= number <= 30 for number in numbers)
