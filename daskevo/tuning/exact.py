"""Arithmetic with bit-identical results on every machine, using only addition and multiplication (IEEE 754).

Values of sequences are part of the keys of trained states, also for studies in other processes and on other machines.
`pow` and `cos` of the C library and of numpy's vector code differ by a bit between versions and processors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def powers(base: float, exponents: Integers) -> Floats:
    """Return `base` to the power of each exponent from 0, by repeated squaring; inf beyond the largest number.

    Examples
    --------
    >>> powers(0.5, np.arange(4)).tolist()
    [1.0, 0.5, 0.25, 0.125]
    """
    result = np.ones(exponents.shape)
    left = exponents.copy()
    factor = base
    with np.errstate(over="ignore", invalid="ignore"):
        while left.any():
            np.multiply(result, factor, out=result, where=(left & 1).astype(bool))
            left >>= 1
            # Python's product of floats overflows to inf, where `**` would raise.
            factor *= factor
    return result


def _quarter_wave() -> list[float]:
    """Return the Taylor coefficients of sin(pi/2 x) in odd powers of x: the last is below 1e-18 for x up to 1."""
    square = (np.pi / 2) * (np.pi / 2)
    coefficients = [np.pi / 2]
    for power in range(3, 24, 2):
        coefficients.append(-coefficients[-1] * square / (power * (power - 1)))
    return coefficients


_QUARTER_WAVE = _quarter_wave()


def half_cosine(x: Floats) -> Floats:
    """Return (1 - cos(pi x)) / 2 for x from 0 to 1: how far a cosine has fallen, from exactly 0.

    Examples
    --------
    >>> half_cosine(np.array([0.0, 0.5, 1.0])).round(12).tolist()
    [0.0, 0.5, 1.0]
    """
    # By (1 - cos(pi x)) / 2 = sin(pi x / 2) ** 2, in which nothing is subtracted: it is exactly 0 at 0, and keeps its
    # precision near it. Horner's scheme, from the smallest coefficient.
    square = x * x
    sine = np.full(x.shape, _QUARTER_WAVE[-1])
    for coefficient in reversed(_QUARTER_WAVE[:-1]):
        sine = sine * square + coefficient
    sine *= x
    result: Floats = sine * sine
    return result
