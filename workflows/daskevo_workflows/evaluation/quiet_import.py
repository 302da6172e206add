"""Import Keras without the startup messages of TensorFlow's libraries."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from daskevo.extras import TENSORFLOW, keras_backend

_HARMLESS = (
    *(b"port.cc", b"cpu_feature_guard.cc", b"absl::InitializeLog", b"To enable the following instructions"),
    b"cudart_stub.cc",
)
"""Parts of harmless lines; no setting of TensorFlow suppresses them."""


def import_keras() -> None:
    """Import Keras; show the lines that its backend prints unless they are known to be harmless.

    C++ code writes them to the file descriptor, past `sys.stderr`, where they would break the progress line.
    """
    if "keras" not in sys.modules:
        with quietly():
            import daskevo.models  # noqa: F401 - the room that imports Keras

            if keras_backend() != TENSORFLOW:
                import keras
                import numpy as np

                # At its first serialisation Keras imports TensorFlow, where it is installed, on other backends too.
                keras.saving.serialize_keras_object(np.zeros(1))


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Run code that may import Keras, such as a user's problem file, without the backend's startup messages."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not any(device for kind in ("nvidia[0-9]*", "dxg", "kfd") for device in Path("/dev").glob(kind)):
        # Without a GPU, CUDA prints an error when it is asked for one.
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with contextlib.nullcontext() if "keras" in sys.modules else _without(_HARMLESS):
        yield


@contextlib.contextmanager
def _without(marks: tuple[bytes, ...]) -> Iterator[None]:
    """Hold back what is written to descriptor 2, then write the lines without any of these marks."""
    _flush()
    # A file, not a pipe: nobody would read a pipe meanwhile, and a full one blocks whoever writes.
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            _flush()
            # Before the lines that were held back are written: they belong there.
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            for line in held:
                if not any(mark in line for mark in marks):
                    os.write(2, line)


def _flush() -> None:
    # A problem file may have closed or replaced sys.stderr.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.flush()
