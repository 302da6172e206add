"""DeepHyper on Dask, with transfer: its searches run on a Dask cluster, and their models inherit from each other.

DeepHyper is needed when a name of this package is first used, and not before: ``pip install deephyper``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from daskevo.errors import InvalidInput

if TYPE_CHECKING:
    from daskevo_plugins.deephyper.evaluator import DaskEvaluator
    from daskevo_plugins.deephyper.evolution import AgedEvolution
    from daskevo_plugins.deephyper.keras_callback import follow
    from daskevo_plugins.deephyper.living_models import CBO, RandomSearch, RegularizedEvolution
    from daskevo_plugins.deephyper.spaces import options_of, space_of, to_hp_problem
    from daskevo_plugins.deephyper.storage import DaskStorage
    from daskevo_plugins.deephyper.transfer_run import TransferRunFunction, transfer_run_function

__all__ = [
    "CBO",
    "AgedEvolution",
    "DaskEvaluator",
    "DaskStorage",
    "RandomSearch",
    "RegularizedEvolution",
    "TransferRunFunction",
    "follow",
    "options_of",
    "space_of",
    "to_hp_problem",
    "transfer_run_function",
]

_MODULES = {
    "AgedEvolution": "evolution",
    "CBO": "living_models",
    "DaskEvaluator": "evaluator",
    "DaskStorage": "storage",
    "RandomSearch": "living_models",
    "RegularizedEvolution": "living_models",
    "TransferRunFunction": "transfer_run",
    "follow": "keras_callback",
    "options_of": "spaces",
    "space_of": "spaces",
    "to_hp_problem": "spaces",
    "transfer_run_function": "transfer_run",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Looked for, not tried: an ImportError inside DeepHyper is another matter, and is raised as it is.
    if find_spec("deephyper") is None:
        raise InvalidInput(f"{name} needs DeepHyper, which isn't installed here: pip install deephyper")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
