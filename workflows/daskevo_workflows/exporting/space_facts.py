"""Facts about a run's space for a model card: the chosen options and their alternatives, as recorded. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from daskevo.errors import CorruptRecord
from daskevo.space import Space
from daskevo.types import JSON


def space_facts(space: JSON, chosen: Mapping[str, JSON] | None) -> JSON:
    """Return name and size of a space, the options of its choices, and the chosen ones; None if not recorded.

    Parameters
    ----------
    space:
        The space as stored in the run's identity.
    chosen:
        The model's options by choice name; None if the record lacks them.
    """
    if not isinstance(space, Mapping):
        return None
    size = None
    with contextlib.suppress(CorruptRecord):
        size = str(Space.from_json(space).size)
    choices = space.get("choices")
    options: JSON = None
    if isinstance(choices, list) and _are_named(choices):
        options = {str(name): found for name, found in choices}
    elif chosen is not None and isinstance(space.get("mutators"), list):
        found = {name: _by_mutators(space, chosen, name) for name in chosen}
        options = {name: one for name, one in found.items() if one is not None}
    return {
        "name": space.get("name"),
        "size": size,
        "choices": options,
        "chosen": None if chosen is None else dict(chosen),
    }


def _by_mutators(space: Mapping[str, Any], chosen: Mapping[str, JSON], name: str) -> list[JSON] | None:
    """Return the options of a choice in a space of mutators; None if the record lacks them.

    For a step of a space that evolves: all its mutators, even those that did not match the model then, and to stop.
    """
    if name == "base" and _are_named(space.get("bases")):
        return [label for label, _ in space["bases"]]
    evolve = _named(space.get("evolve"))
    step, _, asked = name.partition(": ")
    if step.startswith("step "):
        if asked:
            return _operators(evolve.get(str(chosen.get(step))), asked)
        return ["stop", *evolve] if not step.endswith(" at") else None
    mutators = _named(space["mutators"])
    # The longest, as one mutator's name may begin with that of another.
    whose = max((one for one in mutators if name.startswith(f"{one}/")), key=len, default="")
    return _operators(mutators.get(whose), name.rpartition("/")[2])


def _operators(mutator: Mapping[str, Any] | None, asked: str) -> list[JSON] | None:
    """Return the operators that a mutator chooses from; None for mutators with other choices."""
    if mutator is None or asked != "operator" or not _are_named(mutator.get("operators")):
        return None
    kept = ["as it is"] if mutator.get("keep") is True else []
    return [*kept, *(label for label, _ in mutator["operators"])]


def _named(mutators: JSON) -> dict[str, Mapping[str, Any]]:
    known = mutators if isinstance(mutators, list) else []
    return {str(one["name"]): one for one in known if isinstance(one, Mapping) and "name" in one}


def _are_named(value: JSON) -> bool:
    return isinstance(value, list) and all(isinstance(one, list) and len(one) == 2 for one in value)
