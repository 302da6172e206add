"""Put back what user code changes in Keras for the whole process, so that each evaluation begins as the first did."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras

from daskevo.models import tensorflow_memory
from daskevo.models.keras_private import dtype_policy_given_back, names_given_back


def _runs_eagerly() -> bool:
    # Importing TensorFlow beside another backend would cost seconds and memory.
    return keras.config.backend() == "tensorflow" and tensorflow_memory.runs_eagerly()


_SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], None]], ...] = (
    (keras.config.floatx, keras.config.set_floatx),
    (keras.config.epsilon, keras.config.set_epsilon),
    (keras.config.image_data_format, keras.config.set_image_data_format),
    (
        keras.config.is_flash_attention_enabled,
        lambda on: keras.config.disable_flash_attention() if on is False else keras.config.enable_flash_attention(),
    ),
    (_runs_eagerly, tensorflow_memory.run_eagerly),
)
"""How each is read, and how it is set."""


@contextlib.contextmanager
def leaving_no_trace() -> Iterator[None]:
    """Give names that Keras numbers, and its settings, back at the end of a block.

    An unnamed metric would be called ``auc`` in the first evaluation of a process and ``auc_1`` in the next.
    """
    with names_given_back(), settings_given_back():
        yield


@contextlib.contextmanager
def settings_given_back() -> Iterator[None]:
    """Put back, at the end of a block, what it has made of Keras' settings.

    A dtype policy such as ``mixed_float16`` that one candidate sets would hold for all later ones.
    """
    before = [read() for read, _ in _SETTINGS]
    try:
        with dtype_policy_given_back():
            yield
    finally:
        for value, (read, put) in zip(before, _SETTINGS, strict=True):
            if read() != value:
                put(value)
