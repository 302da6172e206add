"""Where a signal has interrupted this thread."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any


def is_in(frame: FrameType | None, *functions: Callable[..., Any]) -> bool:
    """Tell whether one of these functions, of Python, is being run in a frame or in what has called it."""
    codes = {function.__code__ for function in functions}
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False
