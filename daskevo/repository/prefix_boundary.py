"""The end of a prefix: the first vertex that is not shared, compared with the ancestor's vertex in its place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from daskevo.graph import ArchitectureGraph, Prefix, Vertex
from daskevo.types import JSON

Difference = Literal["whole model", "another layer", "other settings", "own weights", "other connections"]

SETTINGS_SAID = 3
"""Most differing settings that are named."""

_LONGEST_NAME, _LONGEST_VALUE = 60, 40

_DIGESTS = {
    "code": "its own code, or a value that this reads, is another",
    "vocabularies": "its vocabulary is another",
}
"""Parts of a signature that are digests, and what is said of them."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Why a prefix is no longer.

    Parameters
    ----------
    reason:
        - ``whole model``: everything is shared;
        - ``another layer``: the ancestor has a layer of another class in this place;
        - ``other settings``: one of the same class, with other arguments, shapes or dtypes;
        - ``own weights``: weights were loaded into one of the two before it trained, or others into each;
        - ``other connections``: nothing in the ancestor takes these tensors, or not in this way.
    words:
        The layer, and what differs; names and values are shortened.
    """

    reason: Difference
    words: str


def boundary_of(graph: ArchitectureGraph, other: ArchitectureGraph, prefix: Prefix) -> Boundary:
    """Return the first end of the prefix of `graph` with `other`, in flatten order, and its reason.

    If the ancestor has several vertices in that place, the most similar one is compared.
    """
    partners = dict(prefix.vertices)
    index = next((index for index in range(len(graph.vertices)) if index not in partners), None)
    if index is None:
        return Boundary("whole model", "all layers are shared")
    vertex = graph.vertices[index]
    name, facts = _short(graph.layers[vertex.layer].name, _LONGEST_NAME), facts_of(vertex)
    # It is the first vertex without a partner, so all its inputs have one.
    feeds = sorted((partners[edge.source], edge.slot) for edge in vertex.edges)
    # A vertex has one partner at most, so those in the prefix can't be what stands in this place.
    free = set(range(len(other.vertices))).difference(partners.values())
    rivals = [
        other.vertices[number]
        for number in sorted(free)
        if sorted((edge.source, edge.slot) for edge in other.vertices[number].edges) == feeds
    ]
    if not rivals:
        sources = sorted({graph.layers[graph.vertices[edge.source].layer].name for edge in vertex.edges})
        given = _short(" and ".join(sources), _LONGEST_NAME)
        words = (
            f"nothing more in the ancestor takes what {given} gives" if sources else "the ancestor has no further input"
        )
        return Boundary("other connections", f"{name}: {words}")
    rival = min(
        rivals, key=lambda one: (one.signature != vertex.signature, facts_of(one).get("class") != facts.get("class"))
    )
    theirs = facts_of(rival)
    if facts.get("class") != theirs.get("class"):
        return Boundary("another layer", f"{name}: {_kind(facts)}, the ancestor's is {_kind(theirs)}")
    if rival.signature != vertex.signature:
        return Boundary("other settings", f"{name}: {_settings(facts, theirs)}")
    mine, its = graph.layers[vertex.layer].start, other.layers[rival.layer].start
    if mine != its:
        began = "others were loaded into the ancestor's" if its else "the ancestor's began with random ones"
        words = (
            f"it keeps the weights that were loaded into it; {began}"
            if mine
            else ("none were loaded into it, and the ancestor's began with loaded ones")
        )
        return Boundary("own weights", f"{name}: {words}")
    if graph.layers[vertex.layer].tensors != other.layers[rival.layer].tensors:
        return Boundary("other settings", f"{name}: weights of other shapes or dtypes")
    return Boundary("other connections", f"{name}: inputs in another order, or weights shared with another layer")


def facts_of(vertex: Vertex) -> dict[str, JSON]:
    """Return the facts in a vertex' signature by name: class, arguments, shapes.

    For a signature that daskevo has not written, the whole text is the ``class``.
    """
    try:
        signature: Any = json.loads(vertex.signature)
        of_layer, rest = signature["layer"], {name: signature[name] for name in ("call", "outputs")}
        more = {name: value for name, value in of_layer.items() if name != "config"}
        return {"class": of_layer["class"], **of_layer.get("config", {}), **more, **rest}
    # A text of another version, or not of daskevo's: a reason is only said, and must never make an inheritance fail.
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {"class": vertex.signature}


def _kind(facts: dict[str, JSON]) -> str:
    return _short(str(facts["class"]).rpartition(".")[2], _LONGEST_NAME)


def _settings(mine: dict[str, JSON], theirs: dict[str, JSON]) -> str:
    names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    # Shapes follow from the arguments, so they are named only if nothing else differs.
    own = [name for name in names if name not in ("outputs", "dtypes")] or names
    said = [_difference(name, mine.get(name), theirs.get(name)) for name in own] or ["what has no name differs"]
    more = f", and {len(said) - SETTINGS_SAID} more" if len(said) > SETTINGS_SAID else ""
    return "; ".join(said[:SETTINGS_SAID]) + more


def _difference(name: str, mine: JSON, theirs: JSON) -> str:
    """Say in what a setting differs: of a long one the first part that does."""
    if name in _DIGESTS:
        return _DIGESTS[name]
    while max(map(len, map(_text, (mine, theirs)))) > _LONGEST_VALUE:
        match mine, theirs:
            case dict(), dict():
                parts: dict[str, tuple[JSON, JSON]] = {k: (mine.get(k), theirs.get(k)) for k in {**mine, **theirs}}
            case list(), list() if len(mine) == len(theirs):
                parts = {str(place): pair for place, pair in enumerate(zip(mine, theirs, strict=True))}
            case _:
                break
        part = next((key for key, pair in parts.items() if pair[0] != pair[1]), None)
        if part is None:
            break  # a name that only one of the two has, as None
        name, (mine, theirs) = f"{name} {part}", parts[part]
    one, other = _text(mine), _text(theirs)
    shared = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, shared - _LONGEST_VALUE // 2)
    return f"{_short(name, _LONGEST_NAME)} {_from(one, start)}, the ancestor's {_from(other, start)}"


def _text(value: JSON) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


def _from(text: str, start: int) -> str:
    return _short(text if start == 0 or len(text) <= _LONGEST_VALUE else f"…{text[start:]}", _LONGEST_VALUE)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
