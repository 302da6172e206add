"""Hyper-parameters that change in training, and where in an optimizer they go.

Keras keeps the learning rate in a variable, and all others, momentum and weight decay among them, as Python numbers
that become constants of the traced step. Here they become tensors that the step is called with, so that one graph
serves all their values. The same graph for the same trajectory, wherever it is cut: a constant folded into one graph
and not into another would change last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras

from daskevo.errors import InvalidInput

SETTABLE = (
    *("learning_rate", "momentum", "weight_decay", "rho", "beta_1", "beta_2", "epsilon"),
    *("clipnorm", "clipvalue", "global_clipnorm"),
)
"""Sequences that are set in the optimizer, if it has a setting of that name."""


class AskedValue(Mapping[str, Any]):
    """Hyper-parameters by name, which note those that were asked for.

    Called as ``asked(name, options)``, they answer like the `choose` of a :class:`daskevo.space.Builder`.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        self.names.add(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

    def __call__(self, name: str, options: Sequence[Any] = ()) -> Any:
        if name not in self._values:
            raise InvalidInput(
                f"build() asks for the choice {name!r}, and the configuration has no such constant: it has "
                f"{sorted(self._values)}"
            )
        return self[name]


class Live:
    """A hyper-parameter of an optimizer that is a tensor in the step being traced.

    To questions that Keras asks in Python, whether it is zero or missing, it says no: so slots that it may come to
    need are there from the first step on.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensor: Any = None

    @property
    def dtype(self) -> str:
        return str(self.tensor.dtype.name)

    @property
    def shape(self) -> tuple[()]:
        return ()

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        import tensorflow as tf

        del name
        return self.tensor if dtype is None else tf.cast(self.tensor, dtype)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return self is other

    def __gt__(self, other: object) -> bool:
        return True

    __ge__ = __gt__
    __hash__ = object.__hash__


def _operator(name: str) -> Callable[..., Any]:
    def operate(self: Live, *others: Any) -> Any:
        return getattr(self.tensor, name)(*others)

    return operate


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "neg"):
    setattr(Live, f"__{_name}__", _operator(f"__{_name}__"))


class OptimizerSettings:
    """The settings of an optimizer that are sequences.

    Parameters
    ----------
    optimizer:
        Of Keras, not built yet.
    names:
        Of all sequences of a configuration.

    Raises
    ------
    InvalidInput
        If one is of an optimizer's settings, and can't be changed in this one.
    """

    def __init__(self, optimizer: Any, names: Sequence[str]) -> None:
        # LossScaleOptimizer hands the settings on to the one that it wraps, except for those.
        self.inner = getattr(optimizer, "inner_optimizer", optimizer)
        self.names = [name for name in names if name in SETTABLE and hasattr(self.inner, name)]
        self._described = dict(optimizer.get_config())
        self._live: dict[str, Live] = {}
        for name in self.names:
            if name == "learning_rate":
                self._check_rate()
                continue
            self._check_formula(name)
            self._live[name] = Live(name)
            setattr(self.inner, name, self._live[name])

    def use(self, values: Any) -> None:
        """Let the step that is being traced, or run eagerly, use these values. # (len(names),)"""
        for number, name in enumerate(self.names):
            if name == "learning_rate":
                self.inner.learning_rate.assign(values[number])
            else:
                self._live[name].tensor = values[number]

    @property
    def config(self) -> Mapping[str, Any]:
        """The optimizer's settings as they were before some of them became sequences."""
        return self._described

    def _check_rate(self) -> None:
        if not isinstance(self.inner.learning_rate, keras.Variable):
            raise InvalidInput(
                f"'learning_rate' is a sequence, and compile() gave {type(self.inner).__name__} a schedule of its own: "
                "give the optimizer a number, or make no sequence of it"
            )

    def _check_formula(self, name: str) -> None:
        # What another's formula does with a tensor where it expects a number isn't known.
        if not type(self.inner).__module__.startswith("keras."):
            raise InvalidInput(
                f"{name!r} is a sequence, and the optimizer {type(self.inner).__name__} isn't one of Keras' own, "
                f"whose {name} may change: make it a constant of the configuration"
            )
