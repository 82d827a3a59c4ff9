"""The FLOPs that are reported are those that torch counts."""

from __future__ import annotations

import pytest
import torch
from PIL import Image
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from conduit_cli import policies
from conduit_cli.engine.pipeline import serve
from conduit_cli.engine.prefill import prefill_page
from conduit_cli.engine.prompt import build_prompt
from conduit_cli.families.base import Family
from tests.engine.stock import chat


@pytest.mark.parametrize(("policy", "ratio"), [("full", 1.0), ("conduit", 0.1), ("reuse", 0.0)])
def test_reported_flops_are_counted_flops(tiny: Family, images: list[Image.Image], policy: str, ratio: float) -> None:
    prompt = build_prompt(tiny, chat(3), [prefill_page(tiny, image) for image in images])
    # torch has no count for the CPU's fused attention; the plain one is made of products that it counts
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        served = serve(tiny, prompt, policies.create(policy), ratio)
    scoring = 0  # the recorder's own products are on top of the model's
    if policy != "full":
        g = tiny.decoder.geometry
        scoring = 2 * g.layers * g.heads * g.head_dim * len(prompt.query_span) * len(prompt)
    assert counter.get_total_flops() - scoring == pytest.approx(served.flops, rel=0.01)
