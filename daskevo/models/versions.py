"""Records that another version of Keras wrote, read by the running one.

A record holds full configurations, and the running Keras reads them: arguments that are new get their defaults, renamed
ones their names. What a layer has become is compared with what its record says, by what both versions speak of.
"""

from __future__ import annotations

import json

import keras

from daskevo.graph import ArchitectureGraph
from daskevo.graph.earlier_signatures import LATER
from daskevo.models.first_arguments import arguments_of
from daskevo.models.keras_private import public_symbol
from daskevo.types import JSON

WRITTEN_BY = "keras"
"""Where a graph's structure has the version of Keras that wrote it; graphs of earlier versions of daskevo have none."""


def same_but_for_versions(one: str, other: str) -> bool:
    """Whether two signatures say the same wherever both say something of an argument.

    Code of users' classes and functions isn't compared here, but by :mod:`daskevo.models.stored_code`: a record is of
    what they were, and is read by what they are.

    Examples
    --------
    >>> one = '{"call":{},"layer":{"class":"a","config":{"units":3}},"outputs":[]}'
    >>> same_but_for_versions(one, one.replace('"units":3', '"units":3,"later":7'))
    True
    >>> same_but_for_versions(one, one.replace("3", "4"))
    False
    """
    try:
        mine, theirs = json.loads(one), json.loads(other)
        # Otherwise a user's mended layer would keep the model from being loaded.
        mine["layer"].pop("code", None)
        theirs["layer"].pop("code", None)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return False
    return _agree(mine, theirs)


def _agree(one: JSON, other: JSON) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_agree(one[name], other[name]) for name in one.keys() & other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_agree, one, other))
    return type(one) is type(other) and bool(one == other)


def readable(config: JSON) -> JSON:
    """Return a configuration without the defaults of arguments that the running Keras is too old to know."""
    if isinstance(config, list):
        return list(map(readable, config))
    if not isinstance(config, dict):
        return config
    found = {key: readable(value) for key, value in config.items()}
    own, name, module = found.get("config"), str(config.get("class_name")), str(config.get("module"))
    kind = public_symbol(f"{module}.{name}") if module.partition(".")[0] == "keras" else None
    if isinstance(own, dict) and isinstance(kind, type):
        known, later = arguments_of(kind), LATER.get(name, {}) if module == "keras.layers" else {}
        found["config"] = {
            key: value
            for key, value in own.items()
            if key in known or not (value is None or (key in later and _agree(value, later[key])))
        }
    return found


def written_by(graph: ArchitectureGraph) -> str | None:
    """Return the version of Keras that a graph was recorded by; None if that is not known."""
    found = graph.structure.get(WRITTEN_BY) if isinstance(graph.structure, dict) else None
    return found if isinstance(found, str) else None


def is_of_running_keras(graph: ArchitectureGraph) -> bool:
    """Whether the running Keras recorded a graph."""
    return written_by(graph) == running_keras()


def running_keras() -> str:
    """Return the version of the running Keras."""
    return str(keras.__version__)
