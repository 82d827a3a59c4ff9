"""What plain reuse (r = 0) loses against full prefill: ``python -m samples.mini.reuse FOLDER``.

Held-out pages, several a document, each prefilled and stored by itself; then one question a document, asked through
`conduit_cli.session` with an instruction before the pages that the stored pages never saw.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

import pymupdf
import torch

from conduit_cli.session import AskOptions, DocumentRequest, Session, load_model, open_store
from samples.mini import questions, raster

PREFIX = "Read carefully."
COUNTS = (2, 4, 6)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--number", type=int, default=30, help="documents of each number of pages")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    r = random.Random("reuse")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        with open_store(path / "store") as store:
            session = Session(load_model(given.folder, device="cpu", dtype="float32"), store)
            for count in COUNTS:
                right = {"full": 0, "reuse": 0}
                for _ in range(given.number):
                    task = questions.draw_task(r, count, (336, 224), 1, held_out=True)
                    document = pymupdf.open()
                    for page in task.pages:
                        raster.write_sheet(document, page)
                    document.save(path / "some.pdf")
                    for policy in right:
                        options = AskOptions(policy=policy, ratio=0.0, instruction=PREFIX, max_new_tokens=32)
                        said = session.ask([DocumentRequest(path / "some.pdf")], task.turns[0].question, options).answer
                        right[policy] += said.strip() == task.turns[0].answer
                print(count, "pages:", {policy: f"{n / given.number:.3f}" for policy, n in right.items()}, flush=True)


if __name__ == "__main__":
    main()
