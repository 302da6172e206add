"""Fault injectors at exact points of put and retire, in the process where they are installed.

The production code has no hooks for this: functions that stand at the steps of the protocol are wrapped from outside.
Every process passes named steps, such as ``provider: Put appended``; a step may be written down, or have its process
killed there.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

from daskevo.provider import served_shard
from daskevo.provider.served_shard import ServedShard
from daskevo.store.shard_folder import ShardFolder
from daskevo.wire import transport

# Which message a record belongs to: the journal's append does not know it. A context variable, because a shard
# handles several messages at a time; `asyncio.to_thread`, which runs the append, copies the context.
_MESSAGE: ContextVar[str] = ContextVar("message", default="opening")


class Strike(NamedTuple):
    """Where a process is struck, and how.

    Attributes
    ----------
    step:
        Name of the step.
    signal:
        What the process is sent there: SIGKILL, or SIGSTOP to be silent.
    """

    step: str
    signal: int = signal.SIGKILL


class _Installed:
    """What happens at the steps of this process."""

    def __init__(self) -> None:
        self.log: Path | None = None
        self.strike: Strike | None = None

    def pass_by(self, step: str) -> None:
        if self.log is not None:
            # Opened and closed for each step, so that a line is in the file before the process may be killed.
            with self.log.open("a") as file:
                file.write(f"{step}\n")
        strike = self.strike
        if strike is not None and strike.step == step:
            # First: a process that was stopped goes on behind the next line, and must not be stopped there again.
            self.strike = None
            os.kill(os.getpid(), strike.signal)


_here = _Installed()
_wrapped = False


def install(log: str | os.PathLike[str] | None = None, strike: Strike | None = None) -> None:
    """Have the steps of this process written down, or one of them struck; both None: neither any more.

    Parameters
    ----------
    log:
        File that gets the name of each step that is passed, one a line.
    strike:
        The step at which this process is struck, the next time that it is passed.
    """
    global _wrapped
    _here.log = None if log is None else Path(log)
    _here.strike = strike
    # Once per process: each further wrapper would pass every step twice.
    if not _wrapped:
        _wrapped = True
        _wrap()


@contextmanager
def _between(before: str, after: str) -> Iterator[None]:
    _here.pass_by(before)
    yield
    # No `finally`: a step that raised has not been carried out.
    _here.pass_by(after)


def _wrap() -> None:
    _wrap_async(transport, "answer", _served)
    _wrap_async(transport.PoolTransport, "_call", _called)
    _wrap_async(ServedShard, "_carry_out", lambda shard, message: (f"provider: {type(message).__name__}", "done"))
    _wrap_sync(served_shard, "take_in", lambda *_: ("provider: tensors", "stored"))
    _wrap_sync(ShardFolder, "append", lambda *_, **__: (f"provider: {_MESSAGE.get()} record", "appended"))
    _wrap_sync(ShardFolder, "delete", lambda *_: ("provider: segments", "deleted"))
    _wrap_sync(ShardFolder, "write_segment", lambda *_, **__: ("segment", "written"))


def _served(method: str, function: Any, arguments: Any, role: str | None = None) -> tuple[str, str]:
    return f"{role or 'this process'}: {method} served", "answered"


def _called(pool: Any, address: str, name: str, *more: Any, **options: Any) -> tuple[str, str]:
    # Operations are named daskevo_ROLE_KEY_METHOD; the key differs from root to root.
    return f"call of {name.split('_')[1]} {name.split('_', 3)[3]}", "came back"


def _wrap_async(owner: Any, name: str, say: Callable[..., tuple[str, str]]) -> None:
    function = getattr(owner, name)

    @wraps(function)
    async def stepping(*args: Any, **kwargs: Any) -> Any:
        step, after = say(*args, **kwargs)
        token = _MESSAGE.set(step.removeprefix("provider: ")) if owner is ServedShard else None
        try:
            with _between(f"{step} begins", f"{step} {after}"):
                return await function(*args, **kwargs)
        finally:
            if token is not None:
                _MESSAGE.reset(token)

    setattr(owner, name, stepping)


def _wrap_sync(owner: Any, name: str, say: Callable[..., tuple[str, str]]) -> None:
    function = getattr(owner, name)

    @wraps(function)
    def stepping(*args: Any, **kwargs: Any) -> Any:
        step, after = say(*args, **kwargs)
        with _between(f"{step} begins", f"{step} {after}"):
            return function(*args, **kwargs)

    setattr(owner, name, stepping)
