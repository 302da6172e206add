"""Whether the run in a folder is the one that is asked for, and in which parts it differs, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from daskevo.errors import RunMismatch
from daskevo.types import JSON

IDENTIFYING = ("problem", "space", "objective", "seed", "strategy", "policy")
"""Parts of `run.json` that a resumed run must agree with; budgets and limits may change."""

_FOLLOWS: Mapping[str, tuple[str, ...]] = {
    "problem.name": ("problem", "space", "objective", "policy.epochs", "policy.batch_size"),
    "strategy.name": ("strategy",),
}
"""Part -> what cannot but differ with it, and is not said apart."""


def check_identity(folder: Path, found: Mapping[str, JSON], asked: Mapping[str, JSON]) -> None:
    """See that a folder's run is the one asked for.

    Raises
    ------
    RunMismatch
        Naming each part that differs, with both values; its `parts` are their names, such as
        ``strategy.settings.population``.
    """
    differing = differences(found, json.loads(json.dumps(asked)))
    if differing:
        words = "\n".join(f"    {_say(part, there, here)}" for part, (there, here) in differing.items())
        raise RunMismatch(
            f"{folder} holds another run than the one that is asked for here:\n{words}\n"
            "Use the same settings to go on with it, or another folder for a new run",
            path=str(folder),
            parts=sorted(differing),
        )


def differences(found: Mapping[str, JSON], asked: Mapping[str, JSON]) -> dict[str, tuple[JSON, JSON]]:
    """Return part -> (value in the folder, value asked for) where they differ; None where one has no such part."""
    there, here = (dict(_parts("", {name: identity.get(name) for name in IDENTIFYING})) for identity in (found, asked))
    names = [name for name in dict.fromkeys([*there, *here]) if there.get(name) != here.get(name)]
    following = {
        name
        for cause, parts in _FOLLOWS.items()
        if cause in names
        for name in names
        if name != cause and any(name == part or name.startswith(f"{part}.") for part in parts)
    }
    return {name: (there.get(name), here.get(name)) for name in names if name not in following}


def _parts(name: str, value: JSON) -> Iterator[tuple[str, JSON]]:
    """Yield the parts of an identity by their dotted names; those of a space are its choices."""
    match value:
        case {"name": space, "choices": list(choices)} if name == "space":
            yield "space.name", space
            for choice in choices:
                match choice:
                    case [str(option), options]:
                        yield f"space.{option}", options
                    case other:
                        yield "space.?", other
            yield "space.order", [choice[0] if isinstance(choice, list) and choice else None for choice in choices]
        case dict():
            for key, part in value.items():
                yield from _parts(f"{name}.{key}" if name else str(key), part)
        case _:
            yield name, value


def _say(part: str, there: JSON, here: JSON) -> str:
    if part == "problem.content":
        return "problem: its source has changed since the run was begun"
    kind, _, name = part.partition(".")
    words = part.rpartition(".")[2].replace("_", " ")
    if name == "name" and kind in ("problem", "strategy"):
        words = kind
    elif kind == "space":
        words = f"{name} of the space" if name in ("name", "order") else f"options of {name}"
    elif part.startswith("policy.limits."):
        words = f"least and most {words}"
    return f"{words}: {_value(there)} there, {_value(here)} here"


def _value(value: JSON) -> str:
    text = "none" if value is None else json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"
