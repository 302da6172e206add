"""Pictures that spaces of convolutional networks are tried on."""

from __future__ import annotations

from daskevo.errors import InvalidInput
from daskevo_workflows.problems.digits import Digits
from daskevo_workflows.problems.fashion_mnist import FashionMnist
from daskevo_workflows.problems.protocol import Data

SIDES = {"digits": 8, "fashion-mnist": 14}
"""Height and width, by name; all have one channel and ten classes."""


def side_of(pictures: str) -> int:
    """Return height and width.

    Raises
    ------
    InvalidInput
        If there are no such pictures.
    """
    if pictures not in SIDES:
        raise InvalidInput(f"pictures={pictures!r:.40}: use 'digits' or 'fashion-mnist'")
    return SIDES[pictures]


def data_of(pictures: str) -> Data:
    """Return the pictures, float32 # (n, side, side, 1), with their classes # (n,)"""
    if pictures == "fashion-mnist":
        return FashionMnist().data()
    # Digits come flat, as 64 features.
    (x, y), (x_val, y_val) = (part := Digits().data()).train, part.validation
    return Data((x.reshape(-1, 8, 8, 1), y), (x_val.reshape(-1, 8, 8, 1), y_val))
