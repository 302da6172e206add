"""Data whose order is a function of seed and epoch: arrays, and Keras' PyDataset.

Generators and tf.data pipelines have a position that can't be saved and found again, and are refused.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import xxhash

from daskevo.errors import InvalidInput
from daskevo.models.host_memory import to_tensor

Integers = np.ndarray[tuple[int], np.dtype[np.int64]]


def order_of(seed: int, epoch: int, count: int) -> Integers:
    """Return the order of the samples, or of a dataset's batches, in an epoch: the same with any version of numpy.

    Sorted by random bits, whose stream numpy promises to keep; not so what it makes of them. # (count,)

    Examples
    --------
    >>> order_of(0, 1, 5).tolist() == order_of(0, 1, 5).tolist() != order_of(0, 2, 5).tolist()
    True
    """
    bits = np.random.Philox(key=[seed, epoch]).random_raw(count)
    return np.argsort(bits, kind="stable").astype(np.int64)


class Rows:
    """Arrays, of which a batch is some rows.

    Parameters
    ----------
    train:
        ``(x, y)``: each an array, or a list, tuple or dict of them.
    """

    def __init__(self, train: tuple[Any, Any]) -> None:
        self.arrays = keras.tree.map_structure(_array, train)
        present = [array for array in keras.tree.flatten(self.arrays) if array is not None]
        counts = {len(array) for array in present if array.ndim}
        if len(counts) != 1 or not all(array.ndim for array in present):
            raise InvalidInput(f"x and y of the data have {sorted(counts)} samples: they must have as many each")
        self.count = counts.pop()
        if not self.count:
            raise InvalidInput("the data have no samples to train with")
        self.digest = _digest(present)
        self.tensors = keras.tree.map_structure(_tensor, self.arrays)

    def rows(self, which: Integers) -> tuple[Any, ...]:
        """Return some rows, structured as the data."""
        taken: tuple[Any, ...] = keras.tree.map_structure(
            lambda array: None if array is None else array[which], self.arrays
        )
        return taken

    def first(self) -> tuple[Any, ...]:
        """Return the first sample as a batch."""
        return tuple(self.rows(np.zeros(1, np.int64)))


class Batches:
    """A PyDataset, which makes batches itself.

    Python's and numpy's global generators are seeded by seed, epoch and number while a batch is made, so that what it
    draws from them is the same wherever training is cut. Its `workers` are not used.
    """

    def __init__(self, dataset: Any) -> None:
        for hook in ("on_epoch_begin", "on_epoch_end"):
            if getattr(type(dataset), hook) is not getattr(keras.utils.PyDataset, hook):
                raise InvalidInput(
                    f"the dataset {type(dataset).__name__} has {hook}(), so its batches depend on what was before: "
                    "leave it out (batches are shuffled by seed and epoch, and numpy's global generator is seeded "
                    "for each batch)"
                )
        if dataset.num_batches is None or dataset.num_batches < 1:
            raise InvalidInput(f"the dataset {type(dataset).__name__} doesn't end, or has no batch: say how many")
        self.dataset = dataset
        self.count = int(dataset.num_batches)
        # Reading all batches would take as long as an epoch.
        sample = [*keras.tree.flatten(self.batch(0, 0, 0)), *keras.tree.flatten(self.batch(0, 0, self.count - 1))]
        self.digest = _digest([np.asarray(part) for part in sample if part is not None], self.count)

    def batch(self, seed: int, epoch: int, number: int) -> tuple[Any, ...]:
        """Return a batch as ``(x,)``, ``(x, y)`` or ``(x, y, sample_weight)``."""
        with _global_generators(seed, epoch, number):
            made = self.dataset[number]
        made = tuple(made) if isinstance(made, (list, tuple)) else (made,)
        return tuple(keras.tree.map_structure(_array, part) for part in made)

    def first(self) -> tuple[Any, ...]:
        """Return the first batch."""
        return self.batch(0, 0, 0)


Feed = Rows | Batches


def feed_of(data: Any) -> Feed:
    """Return what batches come from.

    Raises
    ------
    InvalidInput
        If the order of the data can't be found again, or there are none.
    """
    try:
        x, *rest = data.train
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"data() returned {type(data).__name__}: return Data(train=(x, y), validation=(x, y))"
        ) from error
    known = _feeds.get(id(data))
    if known is None or known[0] is not data:
        made: Feed = Batches(x) if isinstance(x, keras.utils.PyDataset) else Rows((x, *rest))
        # The data are kept with it, so that no others get their id; one, as they may be large.
        _feeds.clear()
        known = _feeds[id(data)] = data, made
    return known[1]


_feeds: dict[int, tuple[Any, Feed]] = {}


def _array(part: Any) -> Any:
    if part is None:
        return None
    if hasattr(part, "__next__") or (hasattr(part, "element_spec") and not hasattr(part, "shape")):
        raise InvalidInput(
            f"the data are a {type(part).__name__}, whose order can't be found again after a cut: give arrays, or a "
            "keras.utils.PyDataset (a generator can be made one: __getitem__(number) returns the batch of that number)"
        )
    if isinstance(part, np.ma.MaskedArray):
        raise InvalidInput(
            f"the data hold a masked array of shape {part.shape}, and training would see what is masked: fill it "
            "(array.filled(value))"
        )
    array = np.asarray(part)
    if array.dtype == object:
        raise InvalidInput(
            f"the data hold a {type(part).__name__} that is no array of numbers: give arrays, or a "
            "keras.utils.PyDataset"
        )
    floats = keras.config.floatx()
    # As Keras' own fit does it.
    return array.astype(floats) if array.dtype.kind == "f" and array.dtype != np.dtype(floats) else array


def _tensor(array: Any) -> Any:
    return None if array is None else to_tensor(array)


def _digest(arrays: list[Any], *further: int) -> str:
    digest = xxhash.xxh3_128(repr(further).encode())
    for array in arrays:
        # The same bytes in another shape or byte order are other data.
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@contextlib.contextmanager
def _global_generators(seed: int, epoch: int, number: int) -> Iterator[None]:
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 - what datasets of others draw from
    words = np.random.SeedSequence([seed, epoch, number]).generate_state(2)
    random.seed(int(words[0]))
    np.random.seed(int(words[1]))  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
