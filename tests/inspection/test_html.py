"""The HTML file in a real browser."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from conduit_cli import AskOptions, DocumentRequest, Session, policies
from conduit_cli.families.tiling import stitched, tile_grids, tiled
from conduit_cli.inspection.geometry import Cells, TokenGrid, edges
from conduit_cli.inspection.html import write_html
from conduit_cli.inspection.model import Inspection
from tests.inspection.conftest import QUESTION, Inspect
from tests.inspection.synthetic import made, noisy_page

# Of each token of the page on show: red, green, blue and alpha in the middle of its cell; null where it has none.
PIXELS = """() => {
  const article = document.querySelector("article:not([hidden])");
  const page = JSON.parse(document.getElementById("inspection").textContent).pages[article.id.slice(5)];
  const pixels = Array(page.tokens).fill(null), figures = article.querySelectorAll("figure");
  page.grids.forEach((grid, at) => {
    const canvas = figures[at].querySelector("canvas");
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
    copy.drawImage(canvas, 0, 0);
    const bytes = copy.getImageData(0, 0, canvas.width, canvas.height).data;
    grid.tokens.forEach((token, cell) => {
      const [left, right] = grid.columns[cell % grid.columns.length];
      const [top, bottom] = grid.rows[Math.floor(cell / grid.columns.length)];
      const x = Math.floor((left + right) / 2 * canvas.width), y = Math.floor((top + bottom) / 2 * canvas.height);
      pixels[token] = Array.from(bytes.slice(4 * (y * canvas.width + x), 4 * (y * canvas.width + x) + 4));
    });
  });
  return pixels;
}"""
# Tokens that the page on show colours.
COLOURED = f"() => ({PIXELS})().flatMap((pixel, token) => (pixel && pixel[3] ? [token] : []))"
OUTLINE_OF = """(at) => document.querySelectorAll("article:not([hidden]) .outer")[at].getAttribute("d")"""
SIZE_OF = """(at) => {
  const image = document.querySelectorAll("article:not([hidden]) figure img")[at];
  return [Number(image.getAttribute("width")), Number(image.getAttribute("height"))];
}"""

Line = tuple[int, int, int, int]


def lines_of(path: str) -> list[Line]:
    """An outline's lines."""
    found = [(int(x), int(y), way, int(to)) for x, y, way, to in re.findall(r"M(\d+) (\d+)([HV])(\d+)", path)]
    return sorted((x, y, to, y) if way == "H" else (x, y, x, to) for x, y, way, to in found)


def outline_of(tab: Any, at: int, grid: TokenGrid, tokens: Sequence[int]) -> list[Line]:
    """The lines that belong around these tokens on figure `at` of the page on show."""
    return sorted(edges(grid.held(tokens), Cells.of(grid, tuple(tab.evaluate(SIZE_OF, at))))[0])


@dataclass
class Opened:
    """A file in a tab of its own, and everything that it did."""

    tab: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def shown(self) -> int:
        """Index of the page on show."""
        return int(self.tab.locator("article:not([hidden])").get_attribute("id").removeprefix("page-"))

    def go(self, index: int) -> None:
        self.tab.locator(f"nav a[href='#page-{index}']").click()
        self.tab.wait_for_selector(f"#page-{index}:not([hidden])")

    def ratio(self, text: str) -> None:
        self.tab.fill("#typed", text)

    def layer(self, name: str) -> None:
        self.tab.check(f"input[name=layer][value='{name}']")


class Tabs:
    """Opens files, and at the end holds each to silence: no error, no request but for itself."""

    def __init__(self, browser: Any) -> None:
        self.browser, self.opened = browser, list[Opened]()

    def open(self, path: Path, *, quiet: bool = True, **context: Any) -> Opened:
        tab = self.browser.new_context(**context).new_page()
        opened = Opened(tab)
        tab.on("console", lambda message: opened.said.append(message.text))
        tab.on("pageerror", lambda error: opened.said.append(str(error)))
        tab.on("dialog", lambda dialog: (opened.said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        tab.on("request", lambda request: opened.asked.append(request.url))
        tab.goto(path.as_uri())
        if quiet:
            self.opened.append(opened)
        return opened

    def close(self) -> None:
        for opened in self.opened:
            assert opened.said == []
            assert [url for url in opened.asked if not url.startswith("data:")] == [opened.tab.url.partition("#")[0]]
        for context in self.browser.contexts:
            context.close()


@pytest.fixture
def tabs(browser: Any) -> Iterator[Tabs]:
    """Tabs that are checked when the test ends."""
    opened = Tabs(browser)
    yield opened
    opened.close()


@pytest.fixture
def made_file(tmp_path: Path) -> Path:
    """Four pages of 6 x 9 tokens."""
    path = tmp_path / "made.html"
    write_html(made(4, (6, 9)), noisy_page(450, 300), path)
    return path


def _write(inspection: Inspection, path: Path) -> Path:
    write_html(inspection, noisy_page(450, 300), path)
    return path


def test_the_slider_gives_the_engines_own_selection(
    inspect: Inspect, tabs: Tabs, session: Session, samples: Path, tmp_path: Path
) -> None:
    inspection = inspect(0.1, pages="1-3", html=tmp_path / "a.html")
    opened = tabs.open(tmp_path / "a.html")
    opened.layer("refreshed")
    for ratio in ("0.1", "0.003", "0.0", "0.29", "0.07", "0.999", "1", "1e-2", ".5"):
        opened.ratio(ratio)
        options = AskOptions(ratio=float(ratio), max_new_tokens=1)
        asked = session.ask([DocumentRequest(samples / "report.pdf", "1-3")], QUESTION, options)
        for index, page in enumerate(asked.pages):
            opened.go(index)
            assert opened.tab.evaluate(COLOURED) == list(page.refreshed), (ratio, page.page)
            drawn = lines_of(opened.tab.evaluate(OUTLINE_OF, 0))
            assert drawn == outline_of(opened.tab, 0, inspection.pages[index].grids[0], page.refreshed)


def test_budgets_are_floors_of_the_decimal_as_typed(tabs: Tabs, tmp_path: Path) -> None:
    inspection = made(1, (10, 10))
    opened = tabs.open(_write(inspection, tmp_path / "a.html"))
    for text in ("0.29", "0.57", "0.58", "0.14", "0.07", "0.285", "0.999999", "1e-2", "0.1"):  # 0.29 * 100 < 29
        opened.ratio(text)
        budget = policies.create("conduit").budget(float(text), [100])
        assert opened.tab.inner_text("#told").startswith(f"{budget} of 100 tokens")
    for text in ("", "x", "1.01", "-1", "1e9"):
        opened.ratio(text)
        assert opened.tab.get_attribute("#typed", "aria-invalid") == "true"
        assert opened.tab.inner_text("#told").startswith("10 of 100 tokens")


def test_the_slider_itself_moves_the_set(made_file: Path, tabs: Tabs) -> None:
    opened = tabs.open(made_file)
    opened.layer("refreshed")
    opened.tab.focus("#slider")
    before = opened.tab.evaluate(COLOURED)
    for _ in range(150):
        opened.tab.keyboard.press("ArrowRight")
    assert opened.tab.input_value("#typed") == "0.25"
    after = opened.tab.evaluate(COLOURED)
    assert set(before) < set(after)
    opened.tab.click("#back")
    assert opened.tab.evaluate(COLOURED) == before


def test_the_next_percent_is_outlined(tabs: Tabs, tmp_path: Path) -> None:
    inspection = made(1, (10, 10))
    opened = tabs.open(_write(inspection, tmp_path / "a.html"))
    ahead = opened.tab.locator("article .ahead")
    token = (inspection.pages[0].ranks or ()).index(10)
    assert lines_of(ahead.get_attribute("d")) == outline_of(opened.tab, 0, inspection.pages[0].grids[0], [token])
    opened.tab.uncheck("#next")
    assert ahead.get_attribute("d") == ""


def test_layers_switch(inspect: Inspect, tabs: Tabs, tmp_path: Path) -> None:
    inspection = inspect(pages="1-2", html=tmp_path / "a.html", versus="full")
    opened = tabs.open(tmp_path / "a.html")
    names = opened.tab.locator("input[name=layer]").evaluate_all("all => all.map((one) => one.value)")
    assert names == ["score", "attention", "value norm", "refreshed", "overlap"]
    pictures = {}
    for name in names:
        opened.layer(name)
        pictures[name] = tuple(tuple(pixel) for pixel in opened.tab.evaluate(PIXELS))
    assert len(set(pictures.values())) == len(names)
    page = inspection.pages[opened.shown()]
    hottest = max(range(page.share.tokens), key=lambda token: (page.scores or ())[token])
    alphas = [pixel[3] for pixel in pictures["score"]]
    assert alphas[hottest] == max(alphas)


def test_overlap_has_three_colours(inspect: Inspect, tabs: Tabs, tmp_path: Path) -> None:
    inspection = inspect(pages="1-2", html=tmp_path / "a.html", versus="value-norm")
    opened = tabs.open(tmp_path / "a.html")
    opened.layer("overlap")
    page = inspection.pages[opened.shown()]
    pixels = opened.tab.evaluate(PIXELS)
    kinds: dict[tuple[bool, bool], set[tuple[int, ...]]] = {}
    for token in range(page.share.tokens):
        kind = (token in page.share.refreshed, token in (page.versus or ()))
        kinds.setdefault(kind, set()).add(tuple(pixels[token]))
    assert all(len(colours) == 1 for colours in kinds.values())
    assert len({next(iter(colours)) for colours in kinds.values()}) == len(kinds) >= 3
    assert f"{inspection.versus.overlap:.0%}"[:-1] in opened.tab.inner_text(".summary")  # type: ignore[union-attr]


def test_pages_are_ranked_and_pointing_tells_a_tokens_numbers(made_file: Path, tabs: Tabs) -> None:
    inspection = made(4, (6, 9))
    opened = tabs.open(made_file)
    order = opened.tab.locator("nav a").evaluate_all("all => all.map((one) => Number(one.hash.slice(6)))")
    assert order == list(inspection.by_share)
    assert opened.shown() == order[0]
    page = inspection.pages[order[0]]
    figure = opened.tab.locator("article:not([hidden]) figure")
    box, (row, column) = figure.bounding_box(), (4, 7)
    figure.hover(position={"x": (column + 0.9) / 9 * box["width"], "y": (row + 0.1) / 6 * box["height"]})
    told = opened.tab.inner_text("article:not([hidden]) .token")
    token = row * 9 + column
    assert f"{token}: row 5, column 8" in told
    assert f"{(page.ranks or ())[token] + 1} of {inspection.tokens}" in told
    assert ("refreshed" if token in page.share.refreshed else "reused") in told


def test_everything_is_reached_by_keyboard(made_file: Path, tabs: Tabs) -> None:
    opened = tabs.open(made_file)
    reached = []
    for _ in range(40):
        opened.tab.keyboard.press("Tab")
        reached.append(opened.tab.evaluate("(document.activeElement.id || document.activeElement.tagName)"))
    assert {"INPUT", "slider", "typed", "next", "back", "A", "FIGURE"} <= set(reached)
    opened.tab.locator("article:not([hidden]) figure").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowUp"):
        opened.tab.keyboard.press(key)
    assert "1: row 1, column 2" in opened.tab.inner_text("article:not([hidden]) .token")
    opened.tab.locator("nav a").nth(2).focus()
    opened.tab.keyboard.press("Enter")
    opened.tab.wait_for_selector(f"#page-{made(4, (6, 9)).by_share[2]}:not([hidden])")


HOSTILE = (
    "<script>window.owned = 1</script>",
    '"><img src=x onerror="window.owned = 1">',
    "</script><script>window.owned = 1</script>",
    "line\u2028separator\u2029 </style><b>bold</b> &lt;i&gt; {{ 7 * 7 }} \ud83d",
    "' onmouseover='window.owned = 1",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_strings_are_text(tabs: Tabs, tmp_path: Path, text: str) -> None:
    inspection = made(2, (4, 4), document=f"{text}.pdf", question=text, answer=text)
    opened = tabs.open(_write(replace(inspection, compared=(inspection.answer,)), tmp_path / "a.html"))
    assert opened.tab.evaluate("window.owned") is None
    assert opened.tab.locator("script").count() == 3
    assert opened.tab.locator("h1 *, .answer p *, article h2 *, b, i:not(th i)").count() == 0
    assert opened.tab.locator("img").count() == 4
    shown = text.replace("\ud83d", "?")
    assert opened.tab.locator("h1").evaluate("one => one.textContent") == shown
    assert opened.tab.locator(".answer p").first.evaluate("one => one.textContent") == shown
    assert opened.tab.locator("article h2").first.evaluate("one => one.textContent") == f"page 1 of {shown}.pdf"


def test_a_hostile_file_name_and_question_through_the_whole_program(
    inspect: Inspect, tabs: Tabs, samples: Path, tmp_path: Path
) -> None:
    path = tmp_path / '"><img src=x onerror=alert(1)><script>alert(2)<!--.pdf'
    path.write_bytes((samples / "invoice.pdf").read_bytes())
    inspect(path=path, question="What is </script><script>alert(3)</script>?", html=tmp_path / "a.html")
    opened = tabs.open(tmp_path / "a.html")
    assert opened.tab.locator("h1").inner_text() == "What is </script><script>alert(3)</script>?"
    assert opened.tab.locator("img").count() == 2


def test_nothing_can_leave_the_file(made_file: Path, tabs: Tabs) -> None:
    opened = tabs.open(made_file, quiet=False)
    failed: list[tuple[str, str]] = []
    opened.tab.on("requestfailed", lambda request: failed.append((request.url, request.failure)))
    blocked = opened.tab.evaluate("""async () => {
      const seen = [];
      addEventListener("securitypolicyviolation", (event) => seen.push(event.effectiveDirective));
      const image = new Image();
      image.src = "https://example.org/x.png";
      const script = document.createElement("script");
      script.textContent = "window.owned = 1";
      document.body.append(image, script);
      const failed = await fetch("https://example.org/").then(() => false, () => true);
      await new Promise((done) => setTimeout(done, 50));
      return [failed, window.owned === undefined, ...seen.sort()];
    }""")
    assert blocked == [True, True, "connect-src", "img-src", "script-src-elem"]
    assert failed == [("https://example.org/x.png", "csp")]  # refused by the page itself, not by the network


def test_sixty_pages_stay_small_and_open_at_once(tabs: Tabs, tmp_path: Path) -> None:
    path = tmp_path / "long.html"
    inspection = made(60, (40, 30), layers=36)
    write_html(inspection, noisy_page(850, 1100), path)
    assert path.stat().st_size < 25_000_000
    start = time.perf_counter()
    opened = tabs.open(path)
    opened.tab.wait_for_selector("article:not([hidden]) canvas")
    assert time.perf_counter() - start < 30  # a stall, on whatever machine
    step = opened.tab.evaluate("""() => {
      const typed = document.getElementById("typed"), start = performance.now();
      for (const ratio of ["0.2", "0.21", "0.22", "0.5"]) {
        typed.value = ratio;
        typed.dispatchEvent(new Event("input"));
      }
      return (performance.now() - start) / 4;
    }""")
    assert step < 2000
    opened.go(inspection.by_share[1])
    assert opened.tab.locator("article:not([hidden]) img").evaluate("one => one.naturalWidth") > 300
    opened.tab.locator(f"#numbers a[href='#page-{inspection.by_share[2]}']").click()
    page = opened.tab.locator(f"#page-{inspection.by_share[2]}:not([hidden])")
    page.wait_for()
    assert opened.shown() == inspection.by_share[2]
    assert 0 <= page.bounding_box()["y"] < 400  # the table stands far below: the page has come into view


@pytest.mark.parametrize("width", [375, 320])
def test_a_phone_scrolls_in_one_direction(tabs: Tabs, tmp_path: Path, width: int) -> None:
    inspection = made(3, (6, 9), document="a-very-long-name-" * 6 + ".pdf", question="why" * 60, answer="x" * 300)
    other = replace(inspection.answer, policy="reuse")
    shown = replace(inspection, compared=(other, replace(other, policy="full")))
    opened = tabs.open(_write(shown, tmp_path / "a.html"), viewport={"width": width, "height": 700}, has_touch=True)
    assert opened.tab.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.tab.locator("article:not([hidden]) figure").bounding_box()["width"] <= width
    opened.tab.locator("article:not([hidden]) figure").tap()
    assert "row" in opened.tab.inner_text("article:not([hidden]) .token")


def test_dark_and_light(made_file: Path, tabs: Tabs) -> None:
    light, dark = (
        tabs.open(made_file, color_scheme=scheme).tab.evaluate(
            "['backgroundColor', 'color'].map((name) => "
            "getComputedStyle(document.body)[name].match(/[0-9]+/g).map(Number).reduce((a, b) => a + b))"
        )
        for scheme in ("light", "dark")
    )
    assert light[0] - light[1] > 500
    assert dark[1] - dark[0] > 500


def test_without_javascript_the_table_and_the_pages_remain(tabs: Tabs, made_file: Path) -> None:
    inspection = made(4, (6, 9))
    tab = tabs.open(made_file, java_script_enabled=False).tab
    assert not tab.locator("#controls").is_visible()
    assert tab.locator("article").count() == 4
    assert tab.locator("article >> nth=3").is_visible()
    rows = tab.locator("tbody tr")
    assert rows.count() == 4
    for index, page in enumerate(inspection.pages):
        cells = rows.nth(index).locator("td").all_inner_texts()
        assert cells[0] == "54"
        assert cells[3] == str(len(page.share.refreshed))
        assert tab.locator("article .outer").nth(index).get_attribute("d").count("M") == len(
            edges(page.share.refreshed, Cells.of(page.grids[0], (900, 600)))[0]
        )


@pytest.mark.parametrize("policy", ["reuse", "full", "first-k", "cacheblend"])
def test_where_the_ratio_can_not_be_moved_the_page_says_why(
    inspect: Inspect, tabs: Tabs, tmp_path: Path, policy: str
) -> None:
    inspection = inspect(policy=policy, pages="1-2", html=tmp_path / "a.html")
    opened = tabs.open(tmp_path / "a.html")
    assert opened.tab.locator("#slider").is_disabled()
    assert policy in opened.tab.inner_text("#told")
    opened.layer("refreshed")
    assert opened.tab.evaluate(COLOURED) == list(inspection.pages[opened.shown()].share.refreshed)


def test_each_grid_of_a_tiled_page_has_its_layers_and_numbers(tabs: Tabs, tmp_path: Path) -> None:
    """Tiles with a gap between them, an overview, and tokens that are in neither."""
    rows, columns = tiled(2, 3, (0.0, 0.9)), tiled(2, 4, (0.0, 0.9))
    tiles = TokenGrid.of("tiles", rows, columns, [9 + token for token in stitched((2, 2), (3, 4))])
    overview = replace(tile_grids(1, 1, (3, 3))[0], name="overview")
    inspection = made(2, (tiles, overview), tokens=9 + 48 + 3, ratio=0.2)
    opened = tabs.open(_write(inspection, tmp_path / "a.html"))
    for ratio in ("0.2", "0.05", "0.7", "1", "0"):
        opened.layer("refreshed")
        opened.ratio(ratio)
        budget = policies.create("conduit").budget(float(ratio), [120])
        page = inspection.pages[opened.shown()]
        chosen = [token for token, rank in enumerate(page.ranks or ()) if rank < budget]
        assert opened.tab.evaluate(COLOURED) == [token for token in chosen if token < 57]
        assert lines_of(opened.tab.evaluate(OUTLINE_OF, 0)) == outline_of(opened.tab, 0, tiles, chosen)
        told = opened.tab.locator("article:not([hidden]) .held").all_inner_texts()
        counts = [len([t for t in chosen if start <= t < end]) for start, end in ((9, 57), (0, 9), (57, 60))]
        assert told == [str(count) for count in counts]
        opened.layer("score")
        assert [pixel is None for pixel in opened.tab.evaluate(PIXELS)] == [token >= 57 for token in range(60)]
        assert all(pixel[3] for pixel in opened.tab.evaluate(PIXELS)[:57])
    for at, (grid, cell) in enumerate(((tiles, 21), (overview, 5))):
        figure = opened.tab.locator("article:not([hidden]) figure").nth(at)
        figure.scroll_into_view_if_needed()
        row, column = divmod(cell, len(grid.columns))
        box = figure.bounding_box()
        x, y = sum(grid.columns[column]) / 2 * box["width"], sum(grid.rows[row]) / 2 * box["height"]
        figure.hover(position={"x": x, "y": y})
        told = opened.tab.inner_text("article:not([hidden]) .token")
        assert f"{grid.tokens[cell]}: row {row + 1}, column {column + 1} of the {grid.name}" in told
        figure.hover(position={"x": box["width"] * (0.475 if at == 0 else 0.5), "y": 5})
        assert (
            ("row" in opened.tab.inner_text("article:not([hidden]) .token dl"))
            if at
            else (opened.tab.locator("article:not([hidden]) .token dl").count() == 0)
        )  # between two tiles lies no token


def test_tokens_without_a_place_are_counted(tabs: Tabs, tmp_path: Path) -> None:
    opened = tabs.open(_write(made(2, (TokenGrid("page"),), tokens=256), tmp_path / "a.html"))
    assert "256 tokens have no place on the page" in opened.tab.inner_text("article:not([hidden]) .unplaced")
    assert opened.tab.locator("canvas:not(#bar)").count() == 0
    opened.ratio("0.5")
    assert opened.tab.inner_text("#told").startswith("256 of 512")


def test_a_failed_page_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("old")

    def vanishing(index: int, longest: int) -> Any:
        if index:
            raise OSError("the document is gone")
        return noisy_page(450, 300)(index, longest)

    with pytest.raises(OSError, match="gone"):
        write_html(made(2, (4, 4)), vanishing, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
