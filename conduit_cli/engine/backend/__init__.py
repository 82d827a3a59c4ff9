"""The one package that touches transformers' cache and attention API.

Everything else asks for a `PromptCache`, runs rows through `run_rows` and reads what a
`Recorder` or a `KeyTap` saw. Checked against transformers 5.24: the cache travels as `cache=`, a
ready 4-D mask is used as it is, attention is looked up by name in `AttentionInterface`.
One forward runs at a time in a process; other threads wait.
"""

from conduit_cli.engine.backend.attention import ATTENTION, Recorder, attach, detached
from conduit_cli.engine.backend.cache import Overwritten, PromptCache
from conduit_cli.engine.backend.keys import KeyTap
from conduit_cli.engine.backend.rows import Narrow, run_rows

__all__ = ["ATTENTION", "KeyTap", "Narrow", "Overwritten", "PromptCache", "Recorder", "attach", "detached", "run_rows"]
