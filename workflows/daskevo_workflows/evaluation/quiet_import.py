"""Import Keras without what TensorFlow's libraries print while they are loaded."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_HARMLESS = (
    *(b"port.cc", b"cpu_feature_guard.cc", b"absl::InitializeLog", b"To enable the following instructions"),
    b"cudart_stub.cc",
)
"""Marks of the lines that say nothing is wrong; no setting of TensorFlow's own keeps them back."""


def import_keras() -> None:
    """Import Keras; lines that its backend prints are shown unless they are known to be harmless.

    They are written by C++ code to the file descriptor, past `sys.stderr`, and would tear the progress line.
    """
    if "keras" not in sys.modules:
        with quietly():
            import daskevo.models  # noqa: F401 - the room that imports Keras


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Do something that may import Keras, such as running a user's problem file, without its backend's greetings."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not any(device for kind in ("nvidia[0-9]*", "dxg", "kfd") for device in Path("/dev").glob(kind)):
        # Without a GPU, asking CUDA for one ends in an error message.
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with contextlib.nullcontext() if "keras" in sys.modules else _without(_HARMLESS):
        yield


@contextlib.contextmanager
def _without(marks: tuple[bytes, ...]) -> Iterator[None]:
    """Hold back what is written to descriptor 2, and pass on the lines without any of these marks."""
    _flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            _flush()
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            for line in held:
                if not any(mark in line for mark in marks):
                    os.write(2, line)


def _flush() -> None:
    # A problem file may have closed it, or put something else in its place.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.flush()
