"""Freeze inherited layers: policies that choose which layers of the prefix stop training.

Source: paper 000, section 3, in which the whole prefix is inherited and frozen; other policies are daskevo's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.freeze_policy import FreezePolicy
from daskevo.graph.prefix import closed, frozen_share
from daskevo.models.flat import FlatModel, weights_of
from daskevo.models.keras_private import with_sublayers
from daskevo.models.moving import moves


@dataclass(frozen=True, slots=True)
class Freezing:
    """Result of freezing.

    Parameters
    ----------
    layers:
        Indices of the frozen layers in ``graph.layers``; only layers with weights.
    tensors:
        Numbers of their tensors.
    share:
        Share of the model's vertices that are frozen, from 0 to 1: calls of frozen layers, and calls without weights
        whose inputs are all frozen (they need no gradients, either).
    moving:
        Layers that the policy chose and that are not frozen, since calling them changes their weights anyway
        (:mod:`daskevo.models.moving`).
    before:
        (layer or variable, its ``trainable``) of all that was frozen, sublayers behind what they are in.
    """

    layers: tuple[int, ...]
    tensors: tuple[int, ...]
    share: float
    moving: tuple[int, ...] = ()
    before: tuple[tuple[Any, bool], ...] = field(default=(), repr=False, compare=False)


def freeze(
    flat: FlatModel, freezable: Iterable[int], policy: object = "prefix", steps: Mapping[int, int] | None = None
) -> Freezing:
    """Freeze layers of an inherited prefix, before the model is compiled.

    Parameters
    ----------
    flat:
        The flattened model. Frozen layers get ``trainable = False``, with which BatchNormalization also keeps its
        moving statistics; a frozen Dropout still drops.
    freezable:
        Layers (indices in ``graph.layers``) with all of their calls in the prefix:
        :meth:`daskevo.graph.Prefix.freezable`.
    policy:
        ``"prefix"`` freezes all of them (as in the paper); ``"none"`` nothing; a number freezes that share of the
        layers with weights, rounded down, beginning at the inputs; ``"steps:K"`` freezes layers whose trainable tensors
        all have K or more steps of training; a function is called with each layer that has weights.

        Layers behind one that is still trained are not frozen, except by a function.

        The last trainable layer is never frozen: otherwise, an identical architecture would have nothing to train.
    steps:
        Tensor number -> its training steps; missing tensors have none.

    Raises
    ------
    InvalidInput
        If the policy is not valid, or a layer is out of range.
    """
    parsed = FreezePolicy.parse(policy)
    layers = sorted(set(freezable))
    if layers and (layers[0] < 0 or layers[-1] >= len(flat.layers)):
        raise InvalidInput(f"the model has layers 0 to {len(flat.layers) - 1}; asked to freeze {layers}")
    last = _last_that_trains(flat)
    candidates = [layer for layer in layers if layer != last and weights_of(flat.layers[layer])]
    moving = {layer for layer in candidates if moves(flat.layers[layer])}
    # Layers that move can't be frozen, so they are no candidates, of which a share is counted. Whether the policy would
    # have chosen them is for the report alone.
    frozen = _choose(flat, [layer for layer in candidates if layer not in moving], parsed, steps or {})
    asked = _choose(flat, candidates, parsed, steps or {}) if moving else []
    before = tuple(pair for layer in frozen for pair in _trainable_in(flat.layers[layer]))
    for layer in frozen:
        flat.layers[layer].trainable = False
    return Freezing(
        layers=tuple(frozen),
        tensors=tuple(number for layer in frozen for number in flat.graph.tensor_numbers(layer)),
        share=frozen_share(flat.graph, frozenset(frozen)),
        moving=tuple(sorted(moving.intersection(asked))),
        before=before,
    )


def unfreeze(freezing: Freezing) -> None:
    """Make what was frozen trainable again; compile the model afterwards. What the user had frozen stays frozen."""
    for part, trainable in freezing.before:
        part.trainable = trainable


def _trainable_in(layer: Any) -> list[tuple[Any, bool]]:
    # Setting `trainable` of a layer sets it in its sublayers, too, so sublayers have to be restored after it.
    layers = with_sublayers(layer)
    return [(part, part.trainable) for part in (*layers, *weights_of(layer))]


def _choose(flat: FlatModel, candidates: list[int], policy: FreezePolicy, steps: Mapping[int, int]) -> list[int]:
    if callable(policy.rule):
        return [layer for layer in candidates if policy.rule(flat.layers[layer])]
    least = {layer: min(steps.get(number, 0) for number in _that_train(flat, layer)) for layer in candidates}
    trains = [bool(weights_of(layer) and (layer.trainable_weights or moves(layer))) for layer in flat.layers]
    return closed(flat.graph, policy.choose(candidates, least), trains)


def _that_train(flat: FlatModel, layer: int) -> list[int]:
    """Return the tensors of a layer whose steps count: the trainable ones, or all if there are none.

    A constant tensor keeps its number of steps for ever. Moving statistics have the steps of all trainings.
    """
    train = {id(weight) for weight in flat.layers[layer].trainable_weights}
    numbers = flat.graph.tensor_numbers(layer)
    pairs = zip(numbers, weights_of(flat.layers[layer]), strict=True)
    return [number for number, weight in pairs if id(weight) in train] or list(numbers)


def _last_that_trains(flat: FlatModel) -> int | None:
    for vertex in reversed(flat.graph.vertices):
        layer = flat.layers[vertex.layer]
        if weights_of(layer) and layer.trainable_weights:
            return vertex.layer
    return None
