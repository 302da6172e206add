"""Flatten a model again if its layers were configured anew since: adapted to data, given another activation.

The same goes for layers whose code reads something that has changed. A model is stored as it is when it is put.
``trainable`` stays as it was: freezing is no part of a model.
"""

from __future__ import annotations

from dataclasses import replace

import keras

from daskevo.errors import InvalidInput
from daskevo.models.configs import record_config
from daskevo.models.flat import FlatModel
from daskevo.models.flatten import flatten
from daskevo.models.storable import check_storable
from daskevo.models.stored_code import has_own_code
from daskevo.types import JSON


def as_it_is(model: keras.Model, flat: FlatModel) -> FlatModel:
    """Return `flat` itself if no layer was configured anew, else the model with its graph of now.

    Parameters
    ----------
    model:
        What `flat` was made of.

    Raises
    ------
    CannotFlatten
        If the model can't be stored as it is now.
    InvalidInput
        If its layers have other weights than they had.
    """
    records = flat.graph.layers
    now = zip(flat.layers, records, strict=True)
    is_configured_alike = all(_is_same(record.config, record_config(operation)) for operation, record in now)
    # The usual case, without flattening again. What code of the user's reads may have changed with no configuration.
    if is_configured_alike and not has_own_code(flat.graph):
        return flat
    found = flatten(model)
    before, after = ([vertex.signature for vertex in graph.vertices] for graph in (flat.graph, found.graph))
    if is_configured_alike and before == after:
        return flat
    check_storable(found)
    # By identity: tensor numbers, which say what was inherited and frozen, go on meaning the same variables.
    if list(map(id, found.variables())) != list(map(id, flat.variables())):
        raise InvalidInput("the model has other weights than when it was flattened: flatten it again after changing it")
    layers = zip(records, found.graph.layers, strict=True)
    kept = tuple(
        replace(layer, config=_trainable_as(before.config, layer.config), start=before.start)
        for before, layer in layers
    )
    return FlatModel(replace(found.graph, layers=kept), found.layers)


def _is_same(before: JSON, now: JSON) -> bool:
    return bool(now == before or _trainable_as(before, now) == before)


def _trainable_as(before: JSON, now: JSON) -> JSON:
    """Return a configuration with what another says of what is trainable."""
    match before, now:
        case dict(), dict():
            kept = {"trainable": before["trainable"]} if "trainable" in before and "trainable" in now else {}
            return {name: _trainable_as(before.get(name), value) for name, value in now.items()} | kept
        case list(), list() if len(before) == len(now):
            return [_trainable_as(one, other) for one, other in zip(before, now, strict=True)]
    return now
