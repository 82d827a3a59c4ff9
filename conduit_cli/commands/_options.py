"""Options that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Codec",
    "Device",
    "Dtype",
    "Instruction",
    "Json",
    "Lambda",
    "MaxNewTokens",
    "MaxPixels",
    "MaxSize",
    "ModelName",
    "Offline",
    "Others",
    "PageRange",
    "PasswordFile",
    "PolicyName",
    "PolicyOptions",
    "Quiet",
    "Ratio",
    "StorePath",
    "Seed",
    "System",
    "Temperature",
    "Verify",
]

ModelName = Annotated[
    str | None, typer.Option("--model", help="Hub name, local folder, or 'bundled'.", show_default=False)
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
Dtype = Annotated[str, typer.Option("--dtype", help="auto, float32, bfloat16 or float16.")]
MaxPixels = Annotated[
    int | None, typer.Option("--max-pixels", min=784, help="Pixel budget of a page.", show_default=False)
]
Offline = Annotated[bool, typer.Option("--offline", help="Never use the network.")]
PageRange = Annotated[
    str | None, typer.Option("--pages", help="Pages such as 1-4,7; all by default.", show_default=False)
]
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", help="File that holds a locked PDF's password.", show_default=False),
]
StorePath = Annotated[
    Path | None,
    typer.Option("--store", help="Folder of the store; else CONDUIT_STORE.", show_default=False),
]
MaxSize = Annotated[
    str | None,
    typer.Option("--max-size", help="Cap of the store, e.g. 500M or 20G.", show_default=False),
]
Codec = Annotated[str, typer.Option("--codec", help="How pages are stored: exact, bf16 or int8.")]
Others = Annotated[
    list[Path] | None,
    typer.Option("--with", help="One more document; may be repeated.", show_default=False),
]
Ratio = Annotated[float, typer.Option("--ratio", help="Share of visual tokens to refresh, 0 to 1.")]
PolicyName = Annotated[str, typer.Option("--policy", help="Which stale tokens are refreshed.")]
PolicyOptions = Annotated[
    list[str] | None,
    typer.Option("--policy-option", help="A policy's own setting, NAME=VALUE; may be repeated.", show_default=False),
]
Lambda = Annotated[
    float | None,
    typer.Option("--lambda", help="Strength of the page coefficient, 0 to 1.", show_default=False),
]
System = Annotated[str | None, typer.Option("--system", help="System text.", show_default=False)]
Instruction = Annotated[str | None, typer.Option("--instruction", help="Text before the pages.", show_default=False)]
MaxNewTokens = Annotated[int, typer.Option("--max-new-tokens", help="Longest answer, in tokens.")]
Json = Annotated[bool, typer.Option("--json", help="Print data as JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result.")]
Temperature = Annotated[float, typer.Option("--temperature", help="0 takes the likeliest token.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Makes a sample repeatable.", show_default=False)]
Verify = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Check the checksum of every stored page that is read.")
]
