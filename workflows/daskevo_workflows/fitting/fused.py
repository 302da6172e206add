"""One update for all variables: an optimizer's own formula, traced on vectors that stand for many variables.

The formulas of most optimizers are elementwise, so it makes no difference to the bits of the result whether each
variable is updated alone or all of them as one vector. To the graph it does: some thirty operations for each variable
become thirty in all, and a few that gather and scatter. The formula is Keras' own `update_step`, whatever version is
installed; what Keras does around it (clipping, weight decay, moving averages, accumulation of gradients, loss scaling,
constraints) works on the variables themselves, as ever.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

ELEMENTWISE = ("Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Lion", "RMSprop", "SGD")
"""Optimizers of Keras whose update of an element depends on nothing but that element's own gradient and slots. AdamW is
an Adam here. Lamb, Adafactor and Muon look at whole variables, Nadam has a state besides its slots."""
ALONE = 65_536
"""Variables with more elements than this are updated alone: copying them would cost more than operations."""


@contextlib.contextmanager
def fused_updates(optimizer: Any) -> Iterator[None]:
    """Within this block, let an optimizer update all variables as one vector if its formula allows.

    Only what is traced in the block is affected. Other optimizers work as ever.
    """
    import keras

    # LossScaleOptimizer hands unscaled gradients on to the one that it wraps.
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if not is_elementwise(inner) or keras.config.backend() != "tensorflow":
        yield
        return
    plain = inner._backend_update_step
    with _replaced(inner, {"_backend_update_step": lambda *arguments: _update(inner, plain, *arguments)}):
        yield


def is_elementwise(optimizer: Any) -> bool:
    """Tell whether an optimizer's update is known to be elementwise: one of Keras' own, with nothing of it overridden
    that sees variables one by one."""
    import keras

    known = {getattr(keras.optimizers, name).update_step for name in ELEMENTWISE}
    cls = type(optimizer)
    inherited = ("_backend_update_step", "_get_variable_index", "assign", "assign_add", "assign_sub")
    return getattr(cls, "update_step", None) in known and all(
        getattr(cls, name) is getattr(keras.optimizers.Optimizer, name) for name in inherited
    )


def _update(
    optimizer: Any, plain: Callable[..., None], gradients: Sequence[Any], variables: Sequence[Any], learning_rate: Any
) -> None:
    """Do what ``optimizer._backend_update_step(gradients, variables, learning_rate)`` does."""
    import tensorflow as tf

    groups: dict[Any, list[int]] = {}
    sparse: list[int] = []
    for position, (gradient, variable) in enumerate(zip(gradients, variables, strict=True)):
        if isinstance(gradient, tf.IndexedSlices):
            sparse.append(position)  # Keras' formulas treat the rows of an embedding in their own way
            continue
        large = math.prod(variable.shape) > ALONE
        groups.setdefault(position if large else str(variable.dtype), []).append(position)
    if sparse:
        plain([gradients[position] for position in sparse], [variables[position] for position in sparse], learning_rate)
    if not groups:
        return
    lists = _slots(optimizer)
    found = [[optimizer._get_variable_index(variables[position]) for position in group] for group in groups.values()]
    replaced = {name: [Vector([slots[index] for index in group]) for group in found] for name, slots in lists.items()}
    with _replaced(optimizer, {**replaced, "_get_variable_index": lambda vector: vector.number}):
        for number, group in enumerate(groups.values()):
            vector = Vector([variables[position] for position in group], number)
            gradient = vector.joined([gradients[position] for position in group])
            optimizer.update_step(gradient, vector, learning_rate)


def _slots(optimizer: Any) -> Mapping[str, Sequence[Any]]:
    """Return the lists that an optimizer keeps beside its variables: one slot for each of them."""
    variables = optimizer._trainable_variables
    return {
        name: value
        for name, value in vars(optimizer).items()
        if isinstance(value, list) and len(value) == len(variables) and value is not variables
    }


@contextlib.contextmanager
def _replaced(optimizer: Any, attributes: Mapping[str, Any]) -> Iterator[None]:
    """Replace attributes of an optimizer past its `__setattr__`, which tracks what it is given."""
    own = vars(optimizer)
    before = {name: own[name] for name in attributes if name in own}
    own.update(attributes)
    try:
        yield
    finally:
        for name in attributes:
            del own[name]
        own.update(before)


class Vector:
    """Variables of one dtype, end to end, as one variable to an optimizer's formula; a single one keeps its shape.

    Reads are put off until a value is asked for, writes go to the variables at once.

    Parameters
    ----------
    variables:
        Keras or TensorFlow variables; None where one has no such slot.
    number:
        What it is found by in place of `_get_variable_index`.
    """

    def __init__(self, variables: Sequence[Any], number: int | None = None) -> None:
        self.variables = [getattr(variable, "value", variable) for variable in variables]
        self.number = number
        self._value: Any = None

    @property
    def dtype(self) -> str:
        name: str = self.variables[0].dtype.base_dtype.name
        return name

    def joined(self, tensors: Sequence[Any]) -> Any:
        """Return tensors of the variables' shapes as one."""
        import tensorflow as tf

        tensors = [tf.cast(tensor, self.dtype) for tensor in tensors]
        if len(tensors) == 1:
            return tensors[0]
        return tf.concat([tensor if tensor.shape.rank == 1 else tf.reshape(tensor, [-1]) for tensor in tensors], 0)

    def parts(self, tensor: Any) -> Iterator[tuple[Any, Any]]:
        """Yield each variable with its part of a tensor."""
        import tensorflow as tf

        if len(self.variables) == 1:
            yield self.variables[0], tensor
            return
        parts = tf.split(tensor, [math.prod(variable.shape) for variable in self.variables])
        for variable, part in zip(self.variables, parts, strict=True):
            yield variable, part if variable.shape.rank == 1 else tf.reshape(part, variable.shape)

    @property
    def value(self) -> Any:
        """The variables' values as one tensor."""
        import tensorflow as tf

        if self._value is None:
            read = tf.raw_ops.ReadVariableOp
            self._value = self.joined([read(resource=one.handle, dtype=one.dtype) for one in self.variables])
        return self._value

    def assign(self, value: Any) -> None:
        import tensorflow as tf

        for variable, part in self.parts(value):
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=part)
        self._value = value

    def assign_add(self, value: Any) -> None:
        self.assign(self.value + value)

    def assign_sub(self, value: Any) -> None:
        import tensorflow as tf

        for variable, part in self.parts(value):
            tf.raw_ops.AssignSubVariableOp(resource=variable.handle, value=part)
        self._value = None

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        del dtype, name  # Keras asks for no other than the variable's own
        return self.value


def _operator(name: str) -> Callable[..., Any]:
    def operate(self: Vector, *others: Any) -> Any:
        return getattr(self.value, name)(*others)

    return operate


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "neg"):
    setattr(Vector, f"__{_name}__", _operator(f"__{_name}__"))
