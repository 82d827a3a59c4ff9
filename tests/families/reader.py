"""Run as a program: another process that loads every model, reads every page from the store, and answers.

Arguments: a JSON file of `[[folder, [page digest, ...]], ...]`, the store, and where to put the logits.
No socket may connect in it, nor may the hub be told to stay offline: local files need no network by themselves.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import torch


def _refuse(*_args: object, **_kwargs: object) -> None:
    raise AssertionError("a local model tried to reach the network")


def main(work: Path, store_folder: Path, out: Path) -> None:
    """Serve three stored pages of each model at r = 1."""
    socket.socket.connect = _refuse  # type: ignore[method-assign]
    socket.getaddrinfo = _refuse  # type: ignore[assignment]

    from safetensors.torch import save_file

    from conduit_cli import open_store, policies
    from conduit_cli.engine.pipeline import serve
    from conduit_cli.engine.prompt import build_prompt
    from conduit_cli.models.loading import load
    from conduit_store import entry_key
    from tests.engine.stock import chat

    logits: dict[str, torch.Tensor] = {}
    with open_store(store_folder) as store:
        for folder, digests in json.loads(work.read_text("utf-8")):
            model = load(folder)
            states = []
            for digest in digests:
                identity = {**model.identity, "page": digest, "codec": "exact", "engine": 1}
                entry = store.read(entry_key(identity), identity)
                assert entry is not None, f"{folder}: the other process's entry is not found"
                states.append(entry)
            prompt = build_prompt(model.vlm, chat(len(states)), states)
            served = serve(model.vlm, prompt, policies.create("conduit"), 1.0)
            logits[Path(folder).name] = served.logits
    save_file(logits, out)


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
