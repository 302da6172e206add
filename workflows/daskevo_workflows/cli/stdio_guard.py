"""Stand-ins for stdout and stderr for a problem's code: even if it closes or replaces them, the verdict is printed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any


class Lent:
    """A stream that whoever it is lent to may close: it is only flushed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def close(self) -> None:
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def lent_streams() -> Iterator[Callable[[], None]]:
    """Lend stdout and stderr; yield what puts them in their place again while they are lent, as the end does."""
    own = sys.stdout, sys.stderr
    # sys.stdout is None in a process that was started with it closed.
    lent: list[Any] = [stream and Lent(stream) for stream in own]

    def put_back() -> None:
        sys.stdout, sys.stderr = lent

    put_back()
    try:
        yield put_back
    finally:
        sys.stdout, sys.stderr = own
