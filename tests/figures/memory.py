"""Peak memory of serving a long prompt, one process per measurement: `python -m tests.figures.memory MODE FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import transformers
from PIL import Image

from conduit_cli import policies
from conduit_cli.engine.pipeline import serve
from conduit_cli.engine.prefill import prefill_page
from conduit_cli.engine.prompt import Prompt, build_prompt
from conduit_cli.families.qwen2_5_vl import Qwen25VL
from conduit_cli.models.locate import bundled_folder
from conduit_store import Store
from tests.engine.stock import chat

__all__ = ["main"]

_PAGES, _LAYERS = 4, 16


def _model() -> Qwen25VL:
    """Many KV heads and few weights, so that K/V is what fills the memory."""
    config = transformers.AutoConfig.from_pretrained(bundled_folder())
    text = config.text_config
    text.hidden_size, text.intermediate_size, text.num_hidden_layers = 512, 512, _LAYERS
    text.num_attention_heads = text.num_key_value_heads = 8
    text.layer_types = ["full_attention"] * _LAYERS
    config.vision_config.depth, config.vision_config.out_hidden_size = 1, 512
    config.vision_config.fullatt_block_indexes = []
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(bundled_folder())
    processor = transformers.AutoImageProcessor.from_pretrained(bundled_folder(), backend="pil")
    return Qwen25VL(model.eval(), tokenizer, processor, max_pixels=1000 * 784)


def _peak() -> int:
    """Largest resident bytes since `_forget_peak`."""
    told = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in told.splitlines() if line.startswith("VmHWM:"))


def _forget_peak() -> None:
    """Loading a model takes more for a moment than it keeps, which would hide what comes after."""
    Path("/proc/self/clear_refs").write_text("5")


def _prompt(vlm: Qwen25VL, store: Store) -> Prompt:
    identities = [{"page": number} for number in range(_PAGES)]
    if not store.entries():
        for identity in identities:
            page = prefill_page(vlm, Image.effect_noise((700, 1120), 80).convert("RGB"))
            store.write(identity, page.tensors, page.meta)
    entries = {entry.identity["page"]: entry for entry in store.entries()}
    states = [store.read(entries[number].key, {"page": number}) for number in range(_PAGES)]
    return build_prompt(vlm, chat(_PAGES), [state for state in states if state is not None])


def main(mode: str, folder: Path) -> None:
    """Print peak bytes of a mode (`prepare`, `ask`, `stock`) above the loaded model, and K/V bytes."""
    vlm = _model()
    decoder, g = vlm.decoder, vlm.decoder.geometry
    with Store.open(folder, max_size=1 << 33) as store:
        prompt = _prompt(vlm, store)
        decoder.text_model(inputs_embeds=torch.zeros(1, 8, g.hidden), use_cache=False)  # the libraries' own buffers
        _forget_peak()
        before = _peak()
        if mode == "ask":
            serve(vlm, prompt, policies.create("conduit"), 0.1)
        elif mode == "stock":
            rows = len(prompt.visual_slots) // 10 + int((prompt.text_slots > prompt.visual_slots[0]).sum())
            decoder.text_model.config._attn_implementation = "sdpa"
            with torch.inference_mode():
                decoder.text_model(inputs_embeds=torch.randn(1, rows, g.hidden), use_cache=False)
        kv = 2 * g.layers * g.kv_heads * g.head_dim * len(prompt) * 4
    print(json.dumps({"mode": mode, "tokens": len(prompt), "kv": kv, "peak": _peak() - before}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
