"""CONDUIT's rule, scored by the upper half of the layers alone."""

from __future__ import annotations

from conduit_cli.policies.conduit import Conduit

__all__ = ["ConduitUpper"]


class ConduitUpper(Conduit):
    """`Conduit` whose means go over layers L//2 .. L-1; everything else as in the paper.

    Source: ours. With the lower half left out more of the budget falls on the answer's page. Evidence: the README's
    table, four sets of 300 questions on the bundled model: nowhere more than one answer behind `conduit`, and 3 to 20
    ahead where there are several pages. It was first seen on 60 questions of an earlier checkpoint with 8 layers.

    Uncertain: one small reader is all that it was measured on.

    Args:
        lambda_: amplification strength, as in `Conduit`.
        norm: whether the value norm takes part.
    """

    name = "conduit-upper"

    def __init__(self, lambda_: float = 1.0, norm: bool = True) -> None:
        super().__init__(lambda_=lambda_, norm=norm, layers="upper")
