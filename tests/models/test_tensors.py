"""Tensors out of and into models: bytes kept, snapshots stable, memory shared only where that is safe."""

from __future__ import annotations

from typing import Any

import keras
import ml_dtypes
import numpy as np
import pytest
from keras import layers

from daskevo.errors import InvalidInput
from daskevo.models import flatten, read_tensors, shape_only, write_tensors
from daskevo.models.host_memory import ALIGNMENT_BYTES, aligned_copy, is_shareable
from daskevo.types import TensorSpec
from tests.models import zoo

SHAPES = [(), (0,), (3, 0, 2), (1,), (5, 7), (300, 100)]
# What Keras can hold as a variable's dtype.
DTYPES = ["bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn"]


def zeros(shape: Any, dtype: Any = None) -> Any:
    # Keras' own makes them by a cast from int64, which TensorFlow doesn't have for float8.
    return keras.ops.cast(keras.ops.zeros(shape, "float32"), dtype)


class Holds(layers.Layer):
    """Nothing but weights of every shape and dtype."""

    def __init__(self, specs: list[TensorSpec]) -> None:
        super().__init__()
        self.specs = specs

    def build(self, _: Any) -> None:
        for index, spec in enumerate(self.specs):
            self.add_weight(shape=spec.shape, dtype=spec.dtype, initializer=zeros, name=f"w{index}", trainable=False)

    def call(self, x: Any) -> Any:
        return x

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, "specs": [spec.to_json() for spec in self.specs]}


def holds(specs: list[TensorSpec]) -> keras.Model:
    x = keras.Input((2,))
    return keras.Model(x, Holds(specs)(x))


def special(spec: TensorSpec, seed: int = 0) -> np.ndarray:
    """Random bits: NaN payloads, -0.0, infinities and denormals among them."""
    rng = np.random.default_rng(seed)
    if spec.dtype == "bool":
        return rng.integers(0, 2, spec.shape).astype(bool)
    bits = rng.integers(0, 256, spec.nbytes, dtype=np.uint8)
    return bits.view(np.zeros(0, getattr(ml_dtypes, spec.dtype, spec.dtype)).dtype).reshape(spec.shape)


def same_bytes(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def test_every_shape_and_dtype_goes_in_and_out_bit_for_bit() -> None:
    specs = [TensorSpec(shape, dtype) for dtype in DTYPES for shape in SHAPES]
    flat = flatten(holds(specs))
    values = {number: special(spec, number) for number, spec in enumerate(specs)}

    write_tensors(flat, values)
    found = read_tensors(flat)

    for number, array in enumerate(found):
        assert same_bytes(array, values[number]), specs[number]
        assert array.flags.c_contiguous
        assert not array.flags.writeable
        assert TensorSpec.of(array) == flat.graph.tensors[number].spec


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "float16"])
def test_big_endian_and_strided_arrays_keep_their_values(dtype: str) -> None:
    spec = TensorSpec((6, 4), dtype)
    flat = flatten(holds([spec]))
    values = special(spec, 1)
    strided = np.zeros((4, 12), values.dtype)
    strided[:, ::2] = values.T
    arrays = [np.asfortranarray(values), strided[:, ::2].T]
    if dtype != "bfloat16":
        arrays.append(values.astype(values.dtype.newbyteorder(">")))
    for array in arrays:
        write_tensors(flat, {0: np.zeros(spec.shape, values.dtype)})
        write_tensors(flat, {0: array})
        assert same_bytes(read_tensors(flat)[0], values)


@pytest.mark.parametrize("offset", range(0, ALIGNMENT_BYTES + 1, 4))
@pytest.mark.parametrize("writeable", [True, False])
def test_memory_at_any_address_is_written(offset: int, writeable: bool) -> None:
    # An unaligned buffer given to TensorFlow aborts the process: this test would take all others with it.
    flat = flatten(holds([TensorSpec((100,), "float32")]))
    block = np.zeros(100 * 4 + 2 * ALIGNMENT_BYTES, np.uint8)
    start = -block.ctypes.data % ALIGNMENT_BYTES + offset
    array = block[start : start + 400].view("float32")
    array[:] = np.arange(100)
    array.flags.writeable = writeable
    assert is_shareable(array) == (not writeable and offset % ALIGNMENT_BYTES == 0)

    write_tensors(flat, {0: array})

    np.testing.assert_array_equal(read_tensors(flat)[0], np.arange(100, dtype="float32"))


def test_a_writable_array_isnt_shared() -> None:
    flat = flatten(holds([TensorSpec((1000,), "float32")]))
    block = np.empty(4000 + ALIGNMENT_BYTES, np.uint8)
    start = -block.ctypes.data % ALIGNMENT_BYTES
    array = block[start : start + 4000].view("float32")
    array[:] = 1
    write_tensors(flat, {0: array})
    array[:] = 2
    assert read_tensors(flat)[0].max() == 1


def test_a_read_only_aligned_array_is_shared() -> None:
    flat = flatten(holds([TensorSpec((1000,), "float32")]))
    array = aligned_copy(np.arange(1000, dtype="float32"))
    write_tensors(flat, {0: array})
    assert read_tensors(flat)[0].ctypes.data == array.ctypes.data


@pytest.mark.parametrize(
    ("optimizer", "compiled"), [("sgd", False), ("adam", False), pytest.param("adam", True, marks=pytest.mark.long)]
)
def test_training_changes_neither_snapshots_nor_shared_memory(optimizer: str, compiled: bool) -> None:
    x = keras.Input((3,), dtype="int32")
    y = layers.Flatten()(layers.Embedding(50, 8)(x))  # its updates are sparse
    model = keras.Model(x, layers.Dense(1)(layers.BatchNormalization()(layers.Dense(16)(y))))
    flat = flatten(model)
    given = {number: aligned_copy(array) for number, array in enumerate(read_tensors(flat))}
    write_tensors(flat, given)
    copies = {number: array.copy() for number, array in given.items()}
    snapshots = read_tensors(flat)

    model.compile(optimizer, "mse", jit_compile=compiled)
    rng = np.random.default_rng(0)
    model.fit(rng.integers(0, 50, (64, 3)), rng.normal(size=(64, 1)), epochs=2, verbose=0)
    trained = read_tensors(flat)
    model.fit(rng.integers(0, 50, (64, 3)), rng.normal(size=(64, 1)), verbose=0)

    for number, copy in copies.items():
        assert same_bytes(given[number], copy)
        assert same_bytes(snapshots[number], copy)
        assert not same_bytes(trained[number], copy)
        assert not same_bytes(read_tensors(flat)[number], trained[number])


def test_shared_memory_lives_as_long_as_the_model() -> None:
    flat = flatten(holds([TensorSpec((250_000,), "float32")]))
    write_tensors(flat, {0: aligned_copy(np.full(250_000, 3, "float32"))})
    rubbish = [aligned_copy(np.full(250_000, index, "float32")) for index in range(20)]
    assert read_tensors(flat)[0].min() == 3
    snapshot = read_tensors(flat)[0]
    write_tensors(flat, {0: rubbish[0]})
    del flat
    more = [np.full(250_000, index, "float32") for index in range(20)]
    assert snapshot.min() == 3, len(more)


def test_some_tensors_in_the_order_asked_for() -> None:
    flat = flatten(zoo.sequential())
    everything = read_tensors(flat)
    some = read_tensors(flat, [3, 0])
    assert same_bytes(some[0], everything[3])
    assert same_bytes(some[1], everything[0])
    assert read_tensors(flat, []) == []


@pytest.mark.parametrize(
    ("number", "array"),
    [
        (0, np.zeros((5, 4), "float32")),
        (0, np.zeros((4, 5), "float64")),
        (0, np.zeros((4, 5), "float16")),
        (0, np.zeros((4, 5), ">f8")),
        (0, np.zeros((4, 5), "int32")),
        (0, np.zeros(20, "float32")),
        (0, [[0.0] * 5] * 4),
        (0, None),
        (4, np.zeros((2,), "float32")),
        (-1, np.zeros((2,), "float32")),
        (True, np.zeros((5,), "float32")),
        ("0", np.zeros((4, 5), "float32")),
    ],
)
def test_what_doesnt_fit_is_refused_before_anything_is_written(number: Any, array: Any) -> None:
    flat = flatten(zoo.sequential())
    before = read_tensors(flat)
    with pytest.raises(InvalidInput):
        write_tensors(flat, {3: np.full((2,), 9, "float32"), number: array})
    assert all(same_bytes(one, other) for one, other in zip(before, read_tensors(flat), strict=True))


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInput, match="tensors 0 to 3; asked for 4"):
        read_tensors(flatten(zoo.sequential()), [4])


def test_a_model_that_changed_since_is_refused() -> None:
    model = zoo.sequential()
    flat = flatten(model)
    model.layers[0].enable_lora(1)
    with pytest.raises(InvalidInput, match="flatten the model again"):
        read_tensors(flat)


def test_a_shape_only_model_has_no_tensors_to_read_or_write() -> None:
    with shape_only():
        flat = flatten(zoo.sequential())
    with pytest.raises(InvalidInput, match="shape_only"):
        read_tensors(flat)
    with pytest.raises(InvalidInput, match="shape_only"):
        write_tensors(flat, {0: np.zeros((4, 5), "float32")})


def test_nan_is_written_like_any_other_value() -> None:
    flat = flatten(zoo.sequential())
    write_tensors(flat, {1: np.full(5, np.nan, "float32")})
    assert np.isnan(read_tensors(flat, [1])[0]).all()


def test_normalization_computes_with_what_was_written() -> None:
    x = keras.Input((2,))
    model = keras.Model(x, layers.Normalization()(x))
    flat = flatten(model)
    write_tensors(flat, {0: np.array([1, 2], "float32"), 1: np.array([4, 9], "float32")})
    np.testing.assert_allclose(model(np.array([[3.0, 5.0]], "float32")), [[1.0, 1.0]])


def test_mixed_precision_keeps_the_variables_dtype() -> None:
    flat = flatten(zoo.mixed_precision())
    assert [array.dtype.name for array in read_tensors(flat)] == ["float32"] * 4 + ["bfloat16"] * 2
