"""What a caller says: which documents, and how to answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conduit_cli import policies
from conduit_cli.errors import UsageError

__all__ = ["AskOptions", "DocumentRequest"]


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """A document and which of its pages: `pages` as in `1-4,7`, None for all."""

    path: Path
    pages: str | None = None
    password: str | None = None


@dataclass(frozen=True, slots=True)
class AskOptions:
    """How to answer a question.

    Attributes:
        ratio: refresh ratio r, 0 to 1.
        policy, policy_options: which stale tokens to refresh; see `conduit_cli.policies`.
        system: system text, or None for the model's own.
        instruction: text before the pages.
        temperature: 0 takes the likeliest token; above, `seed` makes a sample repeatable.

    Raises:
        UsageError: a value outside its range, or an unknown policy.
    """

    ratio: float = 0.1
    policy: str = "conduit"
    policy_options: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    instruction: str | None = None
    max_new_tokens: int = 128
    temperature: float = 0.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.ratio <= 1:
            raise UsageError(f"the ratio is {self.ratio:g}, but goes from 0 to 1", "try: --ratio 0.1")
        policies.check(self.policy)
        if self.max_new_tokens < 1:
            raise UsageError(f"max-new-tokens is {self.max_new_tokens}, but must be at least 1")
        if not self.temperature >= 0:
            raise UsageError(f"the temperature is {self.temperature:g}, but must be at least 0")
