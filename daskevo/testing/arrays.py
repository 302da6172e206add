"""Arrays that stores get wrong: every storable dtype, odd shapes, byte orders, strides and bit patterns."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from daskevo.store.pack import Array, portable, raw
from daskevo.types import TensorSpec

SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (3, 0, 2), (2, 3), (5, 1, 7))
NUMPY_DTYPES = (
    *("bool", "int8", "uint8", "int16", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64"),
)
ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int4", "uint4")


def awkward_arrays(seed: int = 0) -> dict[str, Array]:
    """Return arrays by a name that says what is awkward about each.

    Parameters
    ----------
    seed:
        Of the generator that draws the values.
    """
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for shape in SHAPES:
        for name in NUMPY_DTYPES:
            # Small numbers, which every dtype holds exactly: 100 is below the largest int8, and 0 and 1 are all that
            # bool has.
            values = rng.integers(0, 2 if name == "bool" else 100, shape)
            arrays[f"{name}{shape}"] = np.asarray(values).astype(name)
        # 1 to 3 only: a 4-bit integer ends at 7, and float8_e8m0fnu, an exponent alone, has no 0.
        for name in ML_DTYPES:
            arrays[f"{name}{shape}"] = np.asarray(rng.integers(1, 4, shape)).astype(getattr(ml_dtypes, name))
        for name in (">f2", ">f4", ">c8", ">i8"):
            arrays[f"{name}{shape}"] = np.asarray(rng.integers(0, 100, shape)).astype(name)
    # By their bits: arithmetic may turn a signalling NaN into a quiet one, and drop its payload.
    bits = np.array([0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000, 1, 0x7F800000, 0xFF800000], np.uint32)
    arrays["NaN payloads, -0.0, denormal, infinities"] = bits.view(np.float32)
    arrays["the same, big-endian"] = bits.astype(">u4").view(">f4")
    arrays["NaN payload, 0-d"] = bits[:1].view(np.float32).reshape(())
    # Views whose memory is not one block in C order: a store that writes their buffer writes other values.
    base = rng.standard_normal((6, 8))
    arrays["transposed"] = base.T
    arrays["every other"] = base[::2, ::3]
    arrays["backwards"] = base[::-1]
    arrays["repeated by a stride of 0"] = np.broadcast_to(base[0], (3, 8))
    arrays["Fortran order, big-endian"] = np.asfortranarray(base).astype(">f8", order="F")
    arrays["read-only"] = base[1].copy()
    arrays["read-only"].flags.writeable = False
    # One byte off. A store must copy it, because TensorFlow aborts on memory that is not 64-byte aligned.
    arrays["unaligned"] = np.frombuffer(b"x" + base[0].tobytes(), np.uint8)[1:].view(np.float64)
    return arrays


def same_tensor(found: Any, expected: Any) -> bool:
    """Return whether two arrays have the same shape, dtype (byte order aside) and bits."""
    return (
        isinstance(found, np.ndarray)
        and TensorSpec.of(found) == TensorSpec.of(expected)
        # By bytes: a NaN is unequal to itself, and -0.0 equals 0.0.
        and bytes(raw(portable(found))) == bytes(raw(portable(expected)))
    )
