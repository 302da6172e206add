"""Say where a problem's code is when it doesn't return: its author can tell an endless loop from a long download."""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from collections.abc import Callable, Iterator

PATIENCE_S = 30.0
"""Seconds between two notices."""


@contextlib.contextmanager
def watched(say: Callable[[str], None]) -> Iterator[None]:
    """In this block say every `PATIENCE_S` seconds, from another thread, where this one is."""
    is_over = threading.Event()
    here = threading.get_ident()

    def watch() -> None:
        from daskevo_plugins.formatting import plain, say_seconds
        from daskevo_workflows.evaluation.failures import place_of

        count = 0
        while not is_over.wait(PATIENCE_S):
            count += 1
            place = place_of(traceback.extract_stack(sys._current_frames().get(here)))
            where = f"at {plain(place, 200)}" if place else "in a library"
            say(f"{say_seconds(count * PATIENCE_S)} have gone by: it is {where} now; Ctrl-C ends it")

    watcher = threading.Thread(target=watch, name="daskevo-patience", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        # So that nothing of it is printed after what comes next.
        watcher.join()
