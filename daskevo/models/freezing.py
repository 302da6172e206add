"""Freezing what was inherited: which layers of the prefix stop training.

Source: paper 000, section 3 (the prefix is inherited and frozen); that freezing is a policy is ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from daskevo.errors import InvalidInput
from daskevo.models.flat import FlatModel, weights_of

Policy = str | float | Callable[[Any], bool]
"""``"prefix"``, ``"none"``, a share of the prefix (0 to 1), ``"steps:K"``, or a function that says whether to freeze a
layer."""
_STEPS = re.compile(r"steps:([0-9]{1,15})")


@dataclass(frozen=True, slots=True)
class Freezing:
    """What was frozen.

    Parameters
    ----------
    layers:
        Indices of the frozen layers in ``graph.layers``; only layers with weights.
    tensors:
        Numbers of their tensors.
    share:
        Share of the model's vertices that are frozen, from 0 to 1: calls of frozen layers, and those without weights
        of which everything upstream is frozen (they need no gradients either).
    """

    layers: tuple[int, ...]
    tensors: tuple[int, ...]
    share: float


def freeze(
    flat: FlatModel, freezable: Iterable[int], policy: Policy = "prefix", steps: Mapping[int, int] | None = None
) -> Freezing:
    """Stop layers of an inherited prefix from training, before the model is compiled.

    Parameters
    ----------
    flat:
        The flattened model. Frozen layers get ``trainable = False``, with which BatchNormalization also keeps its
        moving statistics; a frozen Dropout still drops.
    freezable:
        Layers (indices in ``graph.layers``) all of whose calls are in the prefix:
        :meth:`daskevo.graph.Prefix.freezable`.
    policy:
        ``"prefix"`` freezes all of them (the paper's way); ``"none"`` nothing; a number freezes that share of those
        that have weights, those nearest to the inputs first, rounded down; ``"steps:K"`` those all of whose tensors
        have had K steps of training or more; a function is asked for each that has weights.

        Whatever it says, the last layer that can train goes on training: an identical architecture would otherwise
        have nothing left to train.
    steps:
        Tensor number -> training steps that it has had; one that is missing has had none.

    Raises
    ------
    InvalidInput
        If the policy is none of these, or a layer is out of range.
    """
    layers = sorted(set(freezable))
    if layers and (layers[0] < 0 or layers[-1] >= len(flat.layers)):
        raise InvalidInput(f"the model has layers 0 to {len(flat.layers) - 1}; asked to freeze {layers}")
    last = _last_that_trains(flat)
    candidates = [layer for layer in layers if layer != last and weights_of(flat.layers[layer])]
    frozen = _choose(flat, candidates, policy, steps or {})
    for layer in frozen:
        flat.layers[layer].trainable = False
    return Freezing(
        layers=tuple(frozen),
        tensors=tuple(number for layer in frozen for number in flat.graph.tensor_numbers(layer)),
        share=_share(flat, frozenset(frozen)),
    )


def unfreeze(flat: FlatModel) -> None:
    """Let all layers train again (to be compiled after)."""
    for layer in flat.layers:
        if isinstance(layer, keras.layers.Layer):
            layer.trainable = True


def check_policy(policy: object) -> Policy:
    """Return `policy` if it is one.

    Raises
    ------
    InvalidInput
        If it is none.
    """
    if policy in ("prefix", "none") or (callable(policy) and not isinstance(policy, type)):
        return policy
    if isinstance(policy, (int, float)) and not isinstance(policy, bool) and 0 <= policy <= 1:
        return policy
    if isinstance(policy, str) and _STEPS.fullmatch(policy):
        return policy
    raise InvalidInput(
        f"{policy!r} is no policy for freezing: use 'prefix', 'none', a share from 0 to 1, 'steps:K', or a function of "
        "a layer",
        policy=repr(policy),
    )


def _choose(flat: FlatModel, candidates: list[int], policy: Policy, steps: Mapping[int, int]) -> list[int]:
    policy = check_policy(policy)
    if callable(policy):
        return [layer for layer in candidates if policy(flat.layers[layer])]
    if policy == "prefix":
        return candidates
    if policy == "none":
        return []
    if isinstance(policy, str):
        least = int(policy.removeprefix("steps:"))
        numbers = flat.graph.tensor_numbers
        return [layer for layer in candidates if min(steps.get(number, 0) for number in numbers(layer)) >= least]
    # A share of 0.7 of ten is seven, whatever 0.7 * 10 is in binary.
    return candidates[: math.floor(float(policy) * len(candidates) + 1e-9)]


def _last_that_trains(flat: FlatModel) -> int | None:
    for vertex in reversed(flat.graph.vertices):
        layer = flat.layers[vertex.layer]
        if weights_of(layer) and layer.trainable_weights:
            return vertex.layer
    return None


def _share(flat: FlatModel, frozen: frozenset[int]) -> float:
    if not frozen:
        return 0.0
    vertices = flat.graph.vertices
    still: list[bool] = []
    for vertex in vertices:
        inside = not flat.graph.layers[vertex.layer].tensors and all(still[edge.source] for edge in vertex.edges)
        still.append(vertex.layer in frozen or inside)
    return sum(still) / len(vertices)
