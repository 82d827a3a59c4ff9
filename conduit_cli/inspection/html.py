"""One HTML file with everything in it: pages, numbers, script and style; it can reach nothing outside.

The script and the style are files beside this module, put in as they are. The page's policy (CSP) lets
run what has their digests and nothing else, so a string of a document that got past the escaping still
couldn't act. The data model is in the file in full, as JSON.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from conduit_cli.inspection import wording
from conduit_cli.inspection.files import replacing
from conduit_cli.inspection.geometry import NO_GRID, edges, on_cells
from conduit_cli.inspection.heat import COLOURS, scale_of
from conduit_cli.inspection.model import Inspection, PageView

__all__ = ["DrawPage", "write_html"]

DrawPage = Callable[[int, int], Image.Image]
"""Draws page `index` of an inspection towards `longest` pixels."""

_LONGEST, _SHORTEST = 1400, 350
"""Pixels of a page's longer side: as many as its share of the bytes allows."""
_FEW_COLOURS = 4096
_PICTURE_BYTES = 14_000_000
"""Of all large pictures together; base64 makes it 18.7 MB, and tokens and thumbnails come on top."""
_MOST_PER_PAGE = 900_000
_THUMBNAIL = 168


def write_html(inspection: Inspection, picture: DrawPage, path: Path) -> None:
    """Write the file, or leave the one that is there as it is.

    Args:
        picture: each page is asked for once, and only one is held at a time.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("conduit_cli.inspection"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update(number=wording.number, percent=wording.percent)
    script, style = _packaged("inspect.js"), _packaged("inspect.css")
    page = environment.get_template("inspect.html").stream(
        inspection=inspection,
        answer=inspection.answer,
        how=wording.how,
        page_line=wording.page_line,
        budget_line=wording.budget_line(inspection),
        pages=_pages(inspection, picture),
        order=inspection.by_share,
        most=max(page.share.budget_share for page in inspection.pages),
        layers=inspection.layer_names,
        no_grid=NO_GRID,
        script=script,
        style=style,
        script_digest=_digest(script),
        style_digest=_digest(style),
        data=_json(inspection.to_dict()),
        drawing=_json(_drawing(inspection)),
    )
    with replacing(path) as file:
        for piece in page:
            file.write(piece.encode("utf-8", "replace"))


def _pages(inspection: Inspection, picture: DrawPage) -> list[dict[str, Any]]:
    """What the template needs of each page, in prompt order."""
    limit = min(_MOST_PER_PAGE, _PICTURE_BYTES // len(inspection.pages))
    most = max((share for page in inspection.pages for share in page.layer_attention or ()), default=0.0)
    drawn, longest = [], _LONGEST
    for index, view in enumerate(inspection.pages):
        image = picture(index, _LONGEST)
        uri, size = _embedded(image, view.share.grid, longest, limit)
        longest = min(_LONGEST, max(size) * 5 // 4)  # pages of one document are alike: try no size in vain twice
        image.thumbnail((_THUMBNAIL, _THUMBNAIL))
        outer, inner = edges(view.share.refreshed, view.share.grid[1]) if view.share.grid else ([], [])
        drawn.append(
            {
                "view": view,
                "uri": uri,
                "size": size,
                "thumbnail": _uri(_jpeg(image, 80), "jpeg"),
                "thumbnail_size": image.size,
                "outer": _path(outer),
                "inner": _path(inner),
                "strip": _strip(view, most),
                "fair": view.share.tokens / inspection.tokens / most if most else 0.0,
            }
        )
    return drawn


def _embedded(
    image: Image.Image, grid: tuple[int, int] | None, longest: int, limit: int
) -> tuple[str, tuple[int, int]]:
    """The page as a data URI of at most `limit` bytes of picture, and its size; drawn print stays lossless."""
    while True:
        if grid is not None:
            drawn, _ = on_cells(image, grid, longest)
        else:
            drawn = image.copy()
            drawn.thumbnail((longest, longest), Image.Resampling.LANCZOS)
        content, kind = _smallest(drawn)
        if len(content) <= limit or longest <= _SHORTEST:
            return _uri(content, kind), drawn.size
        longest = max(_SHORTEST, min(longest * 9 // 10, int(longest * (limit / len(content)) ** 0.5)))


def _smallest(image: Image.Image) -> tuple[bytes, str]:
    """PNG or JPEG; the former is tried where there are few colours, as in print."""
    jpeg = _jpeg(image, 82)
    # A hasty attempt tells print from a grey scan, on which the thorough one would waste a second.
    if image.getcolors(_FEW_COLOURS) is None or len(_png(image, 1)) > 2 * len(jpeg):
        return jpeg, "jpeg"
    return min((_png(image, 6), "png"), (jpeg, "jpeg"), key=lambda made: len(made[0]))


def _png(image: Image.Image, effort: int) -> bytes:
    file = BytesIO()
    image.save(file, "PNG", compress_level=effort)
    return file.getvalue()


def _jpeg(image: Image.Image, quality: int) -> bytes:
    file = BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def _uri(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _strip(view: PageView, most: float) -> list[dict[str, Any]]:
    """One bar a layer: height 0 to 1 of the largest share that any page has at any layer."""
    return [
        {"layer": layer, "share": share, "height": share / most if most else 0.0}
        for layer, share in enumerate(view.layer_attention or ())
    ]


def _path(lines: Sequence[tuple[int, int, int, int]]) -> str:
    """SVG path data of straight lines."""
    return "".join(f"M{x0} {y0}L{x1} {y1}" for x0, y0, x1, y1 in lines)


def _drawing(inspection: Inspection) -> dict[str, Any]:
    """What the script needs besides the data: colours, scales and the order of the thumbnails."""
    scales = {layer: scale_of(inspection, layer) for layer in inspection.layer_names}
    return {
        "colours": [list(colour) for colour in COLOURS],
        "order": inspection.by_share,
        "ratio": str(inspection.answer.ratio),
        "scales": {
            layer: {**asdict(scale), "title": wording.LAYER_TITLES[layer]}
            for layer, scale in scales.items()
        },
    }


def _json(value: Any) -> Any:
    """JSON that can stand inside a script element: nothing in it can end the element or a line of script."""
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))  # U+2028 and its like are escaped here
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _packaged(name: str) -> Any:
    """A file of this package, put in unescaped; it is the program's own."""
    from markupsafe import Markup

    return Markup((files("conduit_cli.inspection") / "templates" / name).read_text("utf-8"))


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
