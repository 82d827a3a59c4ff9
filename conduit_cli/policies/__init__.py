"""Refresh policies: which stale visual tokens a prompt's budget is spent on.

One policy per file. `names()` needs no torch, so that a command can refuse an unknown name before
anything heavy is loaded; `create()` imports the one that is asked for.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from conduit_cli.errors import UsageError

if TYPE_CHECKING:
    from conduit_cli.policies.base import Policy

__all__ = ["check", "create", "names", "value_of"]

_POLICIES = {
    "conduit": "conduit:Conduit",
    "conduit-upper": "conduit_upper:ConduitUpper",
    "reuse": "reuse:Reuse",
    "full": "full:Full",
    "attention": "attention:Attention",
    "value-norm": "value_norm:ValueNorm",
    "random": "random:Random",
    "first-k": "first_k:FirstK",
    "vlcache": "vlcache:VLCache",
    "cacheblend": "cacheblend:CacheBlend",
    "cacheblend-budgeted": "cacheblend_budgeted:CacheBlendBudgeted",
    "kvshare": "kvshare:KVShare",
}


def names() -> list[str]:
    """Names that `--policy` takes, the default first."""
    return list(_POLICIES)


def check(name: str) -> None:
    """Refuse an unknown name.

    Raises:
        UsageError: there is no such policy.
    """
    if name not in _POLICIES:
        raise UsageError(f"there is no policy {name!r}", f"choose one of: {', '.join(names())}")


def create(name: str, options: Mapping[str, Any] | None = None) -> Policy:
    """The policy of that name with its options, by their public names (`lambda`, not `lambda_`).

    Raises:
        UsageError: there is no such policy, or it has no such option.
    """
    check(name)
    module, attribute = _POLICIES[name].split(":")
    factory = getattr(import_module(f"conduit_cli.policies.{module}"), attribute)
    known = {parameter.rstrip("_"): parameter for parameter in inspect.signature(factory).parameters}
    for option in options or {}:
        if option not in known:
            takes = f"its options are: {', '.join(known)}" if known else "it has no options"
            raise UsageError(f"the policy {name} has no option {option!r}", takes)
    policy: Policy = factory(**{known[option]: value for option, value in (options or {}).items()})
    return policy


def value_of(text: str) -> Any:
    """An option's value as typed: true, false, null and numbers as such; everything else is text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if value is None or isinstance(value, bool | int | float) else text
