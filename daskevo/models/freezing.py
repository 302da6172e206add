"""Freezing what was inherited: which layers of the prefix stop training.

Source: paper 000, section 3 (the prefix is inherited and frozen); that freezing is a policy is ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.models.flat import FlatModel, weights_of
from daskevo.models.keras_private import with_sublayers
from daskevo.models.moving import moves

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
    moving:
        Layers that were to be frozen and aren't, as their weights would change all the same
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
        that train have had K steps of training or more; a function is asked for each that has weights.

        What is frozen is closed towards the inputs: behind a layer that goes on training, only a function freezes.

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
    moving = {layer for layer in candidates if moves(flat.layers[layer])}
    frozen = _choose(flat, [layer for layer in candidates if layer not in moving], policy, steps or {})
    asked = _choose(flat, candidates, policy, steps or {}) if moving else []
    before = tuple(pair for layer in frozen for pair in _trainable_in(flat.layers[layer]))
    for layer in frozen:
        flat.layers[layer].trainable = False
    return Freezing(
        layers=tuple(frozen),
        tensors=tuple(number for layer in frozen for number in flat.graph.tensor_numbers(layer)),
        share=_share(flat, frozenset(frozen)),
        moving=tuple(sorted(moving.intersection(asked))),
        before=before,
    )


def unfreeze(freezing: Freezing) -> None:
    """Let what was frozen train again (to be compiled after): what had been frozen before stays so."""
    for part, trainable in freezing.before:
        part.trainable = trainable


def _trainable_in(layer: Any) -> list[tuple[Any, bool]]:
    # A layer hands its own on to all that it holds, so what is inside comes behind it.
    layers = with_sublayers(layer)
    return [(part, part.trainable) for part in (*layers, *weights_of(layer))]


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
    return _closed(flat, _named(flat, candidates, policy, steps))


def _named(flat: FlatModel, candidates: list[int], policy: str | float, steps: Mapping[int, int]) -> list[int]:
    if policy == "prefix":
        return candidates
    if policy == "none":
        return []
    if isinstance(policy, str):
        least = int(policy.removeprefix("steps:"))
        return [
            layer for layer in candidates if all(steps.get(number, 0) >= least for number in _that_train(flat, layer))
        ]
    # A share of 0.7 of ten is seven, whatever 0.7 * 10 is in binary.
    return candidates[: math.floor(float(policy) * len(candidates) + 1e-9)]


def _that_train(flat: FlatModel, layer: int) -> list[int]:
    """Return the tensors of a layer whose steps count: a constant one never has another step.

    Of a layer that has none that are trainable all do: statistics that move have the steps of all trainings.
    """
    train = {id(weight) for weight in flat.layers[layer].trainable_weights}
    numbers = flat.graph.tensor_numbers(layer)
    pairs = zip(numbers, weights_of(flat.layers[layer]), strict=True)
    return [number for number, weight in pairs if id(weight) in train] or list(numbers)


def _closed(flat: FlatModel, chosen: list[int]) -> list[int]:
    """Return those of the chosen layers before which, at each of their calls, nothing goes on training or moving."""
    vertices, frozen = flat.graph.vertices, set(chosen)
    trains = [bool(weights_of(layer) and (layer.trainable_weights or moves(layer))) for layer in flat.layers]
    while True:
        behind: list[bool] = []  # whether something that flows into a vertex trains
        for vertex in vertices:
            sources = [(edge.source, vertices[edge.source].layer) for edge in vertex.edges]
            behind.append(any(behind[source] or (trains[of] and of not in frozen) for source, of in sources))
        open_ = {vertex.layer for vertex, is_behind in zip(vertices, behind, strict=True) if is_behind} & frozen
        if not open_:
            return [layer for layer in chosen if layer in frozen]
        frozen -= open_


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
