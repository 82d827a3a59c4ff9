"""Questions shared out to processes, each with a session of its own.

A small model gains nothing from a second thread, and two processes of one thread each gain almost twofold.
"""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from conduit_cli.bench.plan import Asker, Plan, Task
from conduit_cli.errors import ConduitError
from conduit_cli.session.session import Session

__all__ = ["Opener", "shared_out"]

Opener = Callable[[], AbstractContextManager[Session]]
"""Opens a session like the one at hand, in another process; can be pickled."""


def shared_out(
    tasks: Sequence[Task], plan: Plan, opener: Opener, workers: int
) -> Iterator[tuple[Task, dict[str, Any]]]:
    """Each task with its record, as they get ready: in any order.

    Raises:
        ConduitError: what a worker ran into, or that it was killed.
    """
    left = iter(tasks)
    under_way: dict[Any, Task] = {}

    def hand_out(connection: Any) -> None:
        task = next(left, None)
        if task is not None:
            under_way[connection] = task
            with suppress(OSError):  # where nobody listens any more, what it said last is told below
                connection.send(task)

    with ExitStack() as stack:
        for _ in range(min(workers, len(tasks))):
            hand_out(_started(stack, opener, plan))
        while under_way:
            for ready in wait(list(under_way)):
                task, record = under_way.pop(ready), _received(ready)
                hand_out(ready)
                yield task, record


def _started(stack: ExitStack, opener: Opener, plan: Plan) -> Connection:
    """A worker that ends with the stack; what it is in the midst of is lost."""
    spawn = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_work, args=(theirs, opener, plan), daemon=True)
    process.start()
    theirs.close()
    stack.callback(process.join)
    stack.callback(process.terminate)
    stack.callback(ours.close)
    return ours


def _received(connection: Any) -> dict[str, Any]:
    try:
        told = connection.recv()
    except (EOFError, OSError) as error:
        raise ConduitError("a worker process was killed", "run it again to go on, with fewer --workers") from error
    if isinstance(told, BaseException):
        raise told
    record: dict[str, Any] = told
    return record


def _work(connection: Connection, opener: Opener, plan: Plan) -> None:
    """Measure what is sent until the other end closes."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal: the first one decides
    torch.set_num_threads(1)
    try:
        with opener() as session:
            asker = Asker(session, plan)
            while True:
                connection.send(asker.record(connection.recv()))
    except (EOFError, BrokenPipeError):
        return
    except ConduitError as error:
        connection.send(error)
    except Exception as error:  # it may not survive the journey, nor would its traceback
        connection.send(RuntimeError("".join(traceback.format_exception(error))))
