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
from pathlib import Path
from typing import Any

from PIL import Image

from conduit_cli.inspection import wording
from conduit_cli.inspection.files import replacing
from conduit_cli.inspection.geometry import TokenGrid, edges, on_cells
from conduit_cli.inspection.heat import COLOURS, scale_of
from conduit_cli.inspection.model import Inspection, PageView
from conduit_cli.inspection.pictures import data_uri, jpeg, smallest

__all__ = ["DrawPage", "write_html"]

DrawPage = Callable[[int, int], Image.Image]
"""Draws page `index` of an inspection towards `longest` pixels."""

_LONGEST, _SHORTEST = 1400, 350
"""Pixels of a page's longer side: as many as its share of the bytes allows."""
_PICTURE_BYTES = 14_000_000
"""Of all large pictures together; base64 makes it 18.7 MB, and tokens and thumbnails come on top."""
_FILE_BYTES = 22_500_000
"""Of the whole file, where the tokens' numbers take so much that the pictures must take less."""
_MOST_PER_PAGE = 900_000
_SMALLER = 480
"""Pixels of the longer side of the copies on which further grids are drawn; they have large cells."""
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
    data = _json(inspection.to_dict())
    script, style = _packaged("inspect.js"), _packaged("inspect.css")
    page = environment.get_template("inspect.html").stream(
        inspection=inspection,
        answer=inspection.answer,
        how=wording.how,
        page_line=wording.page_line,
        budget_line=wording.budget_line(inspection),
        pages=_pages(inspection, picture, min(_PICTURE_BYTES, (_FILE_BYTES - len(data)) * 3 // 4)),
        order=inspection.by_share,
        most=max(page.share.budget_share for page in inspection.pages),
        layers=inspection.layer_names,
        script=script,
        style=style,
        script_digest=_digest(script),
        style_digest=_digest(style),
        data=data,
        drawing=_json(_drawing(inspection)),
    )
    with replacing(path) as file:
        for piece in page:
            file.write(piece.encode("utf-8", "replace"))


def _pages(inspection: Inspection, picture: DrawPage, room: int) -> list[dict[str, Any]]:
    """What the template needs of each page, in prompt order.

    Args:
        room: bytes that all pictures together may take.
    """
    limit = min(_MOST_PER_PAGE, room // len(inspection.pages))
    most = max((share for page in inspection.pages for share in page.layer_attention or ()), default=0.0)
    drawn, longest = [], _LONGEST
    for index, view in enumerate(inspection.pages):
        image = picture(index, _LONGEST)
        first, *others = view.grids
        small = [_figure(image, grid, view, _SMALLER, limit // 4) for grid in others]
        large = _figure(image, first, view, longest, limit - sum(figure["nbytes"] for figure in small))
        longest = min(
            _LONGEST, max(large["size"]) * 5 // 4
        )  # pages of one document are alike: try no size in vain twice
        image.thumbnail((_THUMBNAIL, _THUMBNAIL))
        drawn.append(
            {
                "view": view,
                "figures": [large, *small],
                "unplaced": wording.unplaced_title(view),
                "unplaced_held": len(set(view.unplaced).intersection(view.share.refreshed)),
                "thumbnail": data_uri(jpeg(image, 80), "jpeg"),
                "thumbnail_size": image.size,
                "strip": _strip(view, most),
                "fair": view.share.tokens / inspection.tokens / most if most else 0.0,
            }
        )
    return drawn


def _figure(image: Image.Image, grid: TokenGrid, view: PageView, longest: int, limit: int) -> dict[str, Any]:
    """The page for one of its grids: at most `limit` bytes of picture as a data URI, and what is drawn over it.

    Drawn print stays lossless.
    """
    while True:
        drawn, cells = on_cells(image, grid, longest)
        content, kind = smallest(drawn)
        if len(content) <= limit or longest <= _SHORTEST:
            break
        longest = max(_SHORTEST, min(longest * 9 // 10, int(longest * (limit / len(content)) ** 0.5)))
    held = grid.held(view.share.refreshed)
    outer, inner = edges(held, cells)
    return {
        "grid": grid,
        "title": wording.grid_title(grid),
        "held": len(held),
        "uri": data_uri(content, kind),
        "nbytes": len(content),
        "size": drawn.size,
        "outer": _path(outer),
        "inner": _path(inner),
    }


def _strip(view: PageView, most: float) -> list[dict[str, Any]]:
    """One bar a layer: height 0 to 1 of the largest share that any page has at any layer."""
    return [
        {"layer": layer, "share": share, "height": share / most if most else 0.0}
        for layer, share in enumerate(view.layer_attention or ())
    ]


def _path(lines: Sequence[tuple[int, int, int, int]]) -> str:
    """SVG path data of lines across or down."""
    return "".join(f"M{x0} {y0}{f'H{x1}' if y0 == y1 else f'V{y1}'}" for x0, y0, x1, y1 in lines)


def _drawing(inspection: Inspection) -> dict[str, Any]:
    """What the script needs besides the data: colours, scales and the order of the thumbnails."""
    scales = {layer: scale_of(inspection, layer) for layer in inspection.layer_names}
    return {
        "colours": [list(colour) for colour in COLOURS],
        "order": inspection.by_share,
        "ratio": str(inspection.answer.ratio),
        "scales": {layer: {**asdict(scale), "title": wording.LAYER_TITLES[layer]} for layer, scale in scales.items()},
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
