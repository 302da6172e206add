"""Look at the call stack that a signal interrupted."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any


def is_in(frame: FrameType | None, *functions: Callable[..., Any]) -> bool:
    """Tell whether a frame or one of its callers runs one of these Python functions."""
    codes = {function.__code__ for function in functions}
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False
