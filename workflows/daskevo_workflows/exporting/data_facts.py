"""Facts about data for a model card: shapes, dtypes, number of samples, digest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from daskevo.types import JSON

_SIDES = ("x", "y", "sample_weight")


def data_facts(data: Any) -> dict[str, JSON]:
    """Return the facts about a problem's data.

    Parameters
    ----------
    data:
        With `train` and `validation`, as in :class:`daskevo_workflows.problems.Data`.

    Examples
    --------
    >>> from daskevo_workflows.problems import Data
    >>> x, y = np.zeros((5, 3), np.float32), np.zeros(5, np.int64)
    >>> data_facts(Data((x, y), (x, y)))["train"]["x"]
    [{'name': '', 'shape': [5, 3], 'dtype': 'float32'}]
    """
    from daskevo_workflows.stage_training import data_digest

    return {
        "train": {side: _arrays(values) for side, values in zip(_SIDES, data.train, strict=False)},
        "validation": {side: _arrays(values) for side, values in zip(_SIDES, data.validation, strict=False)},
        "digest": data_digest(data),
    }


def _arrays(values: Any) -> list[JSON]:
    if isinstance(values, Mapping):
        named = {str(name): value for name, value in values.items()}
    elif isinstance(values, (list, tuple)):
        named = {f"{place}": value for place, value in enumerate(values)}
    else:
        named = {"": values}
    return [
        {"name": name, "shape": list(map(int, np.shape(value))), "dtype": str(getattr(value, "dtype", "object"))}
        for name, value in named.items()
    ]
