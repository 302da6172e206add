"""Values of a configuration's sequences by step, cheap to ask for at each step of a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from daskevo.errors import InvalidInput
from daskevo.tuning import Configuration
from daskevo_workflows.stage_training.data import Feed, Rows

if TYPE_CHECKING:
    import tensorflow as tf

CHUNK = 1024
"""Number of steps whose values are computed at once."""


class Schedule:
    """Values by step.

    Parameters
    ----------
    configuration:
        The hyper-parameters.
    names:
        Of the sequences that go into the optimizer, in its order.
    feed:
        The data.
    problem:
        Its batch size is taken if the configuration has none.

    Raises
    ------
    InvalidInput
        If the configuration has a batch size, and the data come in batches already.
    """

    def __init__(self, configuration: Configuration, names: Sequence[str], feed: Feed, problem: Any) -> None:
        self._configuration = configuration
        self._names = list(names)
        self._count = feed.count
        self._sequence = configuration.sequences.get("batch_size")
        self._fixed: Any = configuration.constants.get("batch_size")
        given = self._sequence is not None or self._fixed is not None
        if given and not isinstance(feed, Rows):
            raise InvalidInput(
                "batch_size is a hyper-parameter, and the data are a PyDataset, which makes batches itself: give "
                "arrays, or leave batch_size out"
            )
        if self._sequence is None and isinstance(feed, Rows):
            self._fixed = self._size(self._fixed, 0) if given else min(problem.batch_size, feed.count)
        self._sizes: tuple[int, Any] = (-1, None)
        self._chunk = -1
        self._rows: Any = None
        self._bits: tuple[bytes, Any] = (b"", None)

    def check(self, since: int, until: int) -> None:
        """See that all values from one step until before another can be used; raises InvalidInput."""
        self._configuration.check(until, since)
        if self._sequence is None:
            return
        for start in range(since, until, CHUNK):
            values = self._sequence.values(start, min(start + CHUNK, until))
            wrong = (values != np.floor(values)) | (values < 1) | (values > self._count)
            if wrong.any():
                step = start + int(np.argmax(wrong))
                # Raises, with the value and its step.
                self._size(float(values[step - start]), step)

    def batch_size(self, step: int) -> int:
        """Return how many samples the batches of a step have, its last one in an epoch perhaps fewer."""
        if self._sequence is None:
            return int(self._fixed)
        chunk, place = divmod(step, CHUNK)
        if chunk != self._sizes[0]:
            self._sizes = chunk, self._sequence.evaluate(chunk * CHUNK, (chunk + 1) * CHUNK)
        return int(self._sizes[1][place])

    def tensor(self, step: int) -> tf.Tensor:
        """Return the values that go into the optimizer, as a tensor. # (n_names,)"""
        chunk, place = divmod(step, CHUNK)
        if chunk != self._chunk:
            self._chunk = chunk
            columns = [
                self._configuration.sequences[name].evaluate(chunk * CHUNK, (chunk + 1) * CHUNK) for name in self._names
            ]
            with np.errstate(over="ignore"):  # beyond the steps that were checked
                table = np.stack(columns, 1) if columns else np.empty((CHUNK, 0))
                self._rows = table.astype(keras.config.floatx())
        row = self._rows[place]
        bits = row.tobytes()
        # By bits: NaN isn't equal to itself, and -0.0 is equal to 0.0. The same values share one tensor.
        if self._bits[1] is None or bits != self._bits[0]:
            import tensorflow as tf

            self._bits = bits, tf.constant(row)
        return self._bits[1]

    def _size(self, value: Any, step: int) -> int:
        whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value)
        if not whole or not 1 <= value <= self._count:
            raise InvalidInput(
                f"batch_size is {value!r:.40} at step {step}, and the data have {self._count} samples: a whole number "
                f"from 1 to {self._count} is needed",
                step=step,
                batch_size=value,
            )
        return int(value)
