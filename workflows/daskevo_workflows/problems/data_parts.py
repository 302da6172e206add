"""What a problem's data may be, said once for those that check them and those that train with them.

A part, `train` or `validation`, is ``(x, y)`` or ``(x, y, sample_weight)``: arrays, sparse matrices of scipy, or lists,
tuples and dicts of them, with samples along the first axis. Or it is ``(dataset, None)``, whose batches are its own: a
keras.utils.PyDataset, or a tf.data.Dataset. A problem with a `fit` of its own may give that what it likes in their
places, such as a loader of its own.
"""

from __future__ import annotations

from typing import Any

from daskevo.errors import InvalidProblem
from daskevo_workflows.problems.protocol import Data, Problem


def check_data(problem: Problem, data: Any) -> None:
    """Check that a search can train and score with a problem's data, for any model.

    If the problem has its own `fit`, only that knows which data it accepts; then only the number of parts is checked.

    Raises
    ------
    InvalidProblem
        The message names the part that can't be used.
    """
    name, own_fit = problem.name, getattr(problem, "fit", None) is not None
    if not all(hasattr(data, part) for part in ("train", "validation")):
        raise InvalidProblem(
            f"problem {name!r}: data() must return Data, not {type(data).__name__}: "
            "Data(train=(x, y), validation=(x, y))",
            problem=name,
        )
    for part in ("train", "validation"):
        found = getattr(data, part)
        if (fault := _fault_of_form(found) if own_fit else _fault(found)) is not None:
            raise InvalidProblem(f"problem {name!r}: {part} of data() {fault}", problem=name, part=part)


def _fault_of_form(part: Any) -> str | None:
    if isinstance(part, (tuple, list)) and len(part) in (2, 3):
        return None
    return "must be (x, y), (x, y, sample_weight) or (dataset, None)"


def _fault(part: Any) -> str | None:
    """Return what is wrong with a part of the data; None if nothing is."""
    if (fault := _fault_of_form(part)) is not None:
        return fault
    x, *others = part
    if hasattr(x, "__next__"):
        return (
            f"is a {type(x).__name__}, which is at its end after one epoch: give arrays, a keras.utils.PyDataset or a "
            "tf.data.Dataset"
        )
    if is_dataset(x):
        # Keras refuses them too, but only once training begins.
        if any(other is not None for other in others):
            return f"is a {type(x).__name__}, whose batches hold y: write ({type(x).__name__}, None)"
        return f"is a {type(x).__name__} that doesn't end: say how many batches it has" if _is_endless(x) else None
    try:
        lengths = {_length(array) for array in _leaves(part)}
    except TypeError as error:
        return f"holds what is no array of samples: {error}"
    if len(lengths) != 1:
        return f"must have as many samples in x, y and sample_weight each, not {sorted(lengths)}"
    return "has no samples" if lengths == {0} else None


def is_dataset(x: Any) -> bool:
    """Tell whether an object yields batches itself."""
    from keras.utils import PyDataset

    # Recognise a tf.data.Dataset by its attributes, so that TensorFlow need not be imported.
    return isinstance(x, PyDataset) or (hasattr(x, "element_spec") and hasattr(x, "cardinality"))


def is_usual(part: Any) -> bool:
    """Tell whether Keras can train and predict with a part; others are for the problem's own `fit`."""
    return _fault(part) is None


def samples(part: Any) -> int | None:
    """Return the number of samples of a part; None for a dataset and for objects that Keras doesn't take."""
    return None if not is_usual(part) or is_dataset(part[0]) else _length(next(iter(_leaves(part))))


def described(part: Any) -> str:
    """Describe the size of a part."""
    count = samples(part)
    if count is not None:
        return f"{count:,} samples"
    if not is_usual(part):
        return f"a {type(part[0]).__name__} for its own fit()"
    batches = _batches(part[0])
    many = "some batches" if batches is None else f"{batches:,} batch{'es' * (batches != 1)}"
    return f"a {type(part[0]).__name__} of {many}"


def first(data: Any, count: int, batches: int) -> Data:
    """Return the first samples of data, or the first batches of a dataset; other objects unchanged."""
    return Data(_first(data.train, count, batches), _first(data.validation, count, batches))


def _first(part: Any, count: int, batches: int) -> Any:
    from keras import tree

    x, *others = part
    if not is_usual(part):
        return part
    if not is_dataset(x):
        return tree.map_structure(lambda leaf: None if leaf is None else _rows(leaf, count), tuple(part))
    return (x.take(batches) if hasattr(x, "take") else _first_batches(x, batches), *others)


def _first_batches(dataset: Any, batches: int) -> Any:
    from keras.utils import PyDataset

    class FirstBatches(PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return min(batches, int(dataset.num_batches))

        def __getitem__(self, number: int) -> Any:
            return dataset[number]

    return FirstBatches()


def _batches(dataset: Any) -> int | None:
    """Return the number of batches of a dataset; None if it doesn't say."""
    count = int(dataset.cardinality()) if hasattr(dataset, "cardinality") else dataset.num_batches
    return None if count is None or count < 0 else int(count)


def _is_endless(dataset: Any) -> bool:
    if hasattr(dataset, "cardinality"):
        return int(dataset.cardinality()) == -1  # tf.data.INFINITE_CARDINALITY
    return dataset.num_batches is None


def _leaves(part: Any) -> list[Any]:
    from keras import tree

    return [leaf for leaf in tree.flatten(tuple(part)) if leaf is not None]


def _length(array: Any) -> int:
    # A sparse matrix has no len().
    shape = getattr(array, "shape", None)
    return int(shape[0]) if shape is not None and len(shape) else len(array)


def _rows(array: Any, count: int) -> Any:
    # Not every format of scipy's sparse matrices can be cut by rows; this one can.
    return (array.tocsr() if hasattr(array, "tocsr") else array)[:count]
