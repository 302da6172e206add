"""Compare the run in a folder with the one that was asked for, and describe the differences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from daskevo.errors import RunMismatch
from daskevo.extras import TENSORFLOW
from daskevo.types import JSON

IDENTIFYING = ("problem", "space", "objective", "seed", "strategy", "backend", "policy")
"""Parts of `run.json` that must be equal to resume a run; budgets and limits may change."""

SOURCE = "problem.content"
"""Digest of the problem's source."""

MADE = "problem.made.digest"
"""Digest of everything that a problem consists of, including what it calls and reads; older runs lack it."""

UNKNOWN = "problem.made.unknown"
"""Names of the objects of a problem that can't be inspected, so that nobody can tell whether it is the same."""

MAKES = "space.?made by"
"""Digest of the function that makes a study's hyper-parameters of the choices; no choice's part has such a name."""

TRAINED, DATA = "problem.data", "problem.made.data"
"""Digests of a study's data: of the training data (only some runs have it), and of all data."""

PYTHON, DATA_PYTHON = "problem.made.python", "problem.made.data_python"
"""Python version whose bytecode is in the digests; for data only if they contain instances of the user's classes."""

CALLBACKS = "policy.passed.callbacks"
"""Names of the callbacks passed to a search; older runs lack them."""

PASSED, PASSED_UNKNOWN = "policy.passed.digest", "policy.passed.unknown"
"""Digest of the callbacks and functions passed to a search, if any, and what of them can't be inspected."""

MUTATION = ".mutation"
"""End of the part of a space that says how it mutates candidates; older runs lack it."""

BACKEND = "backend"
"""Keras' backend; runs on TensorFlow lack it."""

_NOT_KNOWN = frozenset({UNKNOWN, PASSED_UNKNOWN})

COMPILED = "policy.passed.compiled"
"""Versions of Python and Keras for which the digest of passed objects is valid."""

_FOR_PEOPLE = ("problem.parts.", "problem.made.parts.", "policy.passed.parts.", PYTHON, DATA_PYTHON, COMPILED)
"""Digests of single parts, by name: they tell the user what changed, and don't decide anything."""

SHOWN = 6
"""Changed parts of a source that are named, at most."""

_FOLLOWS: Mapping[str, tuple[str, ...]] = {
    "problem.name": ("problem", "space", "objective", "policy.epochs", "policy.batch_size"),
    SOURCE: (MADE, UNKNOWN, MAKES),
    MADE: (UNKNOWN, MAKES),
    CALLBACKS: (PASSED, PASSED_UNKNOWN),
    "policy.freeze": (PASSED, PASSED_UNKNOWN),
    PASSED: (PASSED_UNKNOWN,),
    TRAINED: (DATA,),
    "strategy.name": ("strategy",),
}
"""Part -> parts that necessarily differ with it, and so are not reported separately."""


def check_identity(folder: Path, found: Mapping[str, JSON], asked: Mapping[str, JSON]) -> None:
    """Check that a folder's run is the one asked for.

    Raises
    ------
    RunMismatch
        Names each part that differs, with both values; its `parts` are their names, such as
        ``strategy.settings.population``.
    """
    differing = differences(found, json.loads(json.dumps(asked)))
    if differing:
        words = "\n".join(
            f"    {_say(part, there, here, _changed_parts(part, found, asked))}"
            for part, (there, here) in differing.items()
        )
        of_the_problem = {SOURCE, MADE, UNKNOWN}
        same = "the problem as it was" if of_the_problem & set(differing) else ""
        same += f"{' and ' if same else ''}the same settings" if set(differing) - of_the_problem else ""
        advice = f"Use {same} to go on with it, or another folder for a new run"
        if _NOT_KNOWN & set(differing):
            # The same problem again would be refused again: what can't be inspected never counts as equal.
            advice = 'Take another folder for a new run: if its problem says problem_version = "1", that decides there'
        raise RunMismatch(
            f"{folder} holds another run than the one that is asked for here:\n{words}\n{advice}",
            path=str(folder),
            parts=sorted(differing),
        )


def differences(found: Mapping[str, JSON], asked: Mapping[str, JSON]) -> dict[str, tuple[JSON, JSON]]:
    """Return part -> (value in the folder, value asked for) where they differ; None where a part is missing."""
    # Through JSON and back above: the stored side has lists and text keys where Python has tuples and numbers.
    there, here = (dict(_parts("", {name: identity.get(name) for name in IDENTIFYING})) for identity in (found, asked))
    compared = _compared(there, here)
    names = [
        name
        for name in dict.fromkeys([*there, *here])
        # Something that can't be inspected counts as different, even if both sides say the same about it.
        if (_differ(name, there.get(name), here.get(name)) or name in _NOT_KNOWN) and compared(name)
    ]
    following = {
        name
        for cause, parts in _FOLLOWS.items()
        if cause in names
        for name in names
        if name != cause and any(name == part or name.startswith(f"{part}.") for part in parts)
    }
    return {name: (there.get(name), here.get(name)) for name in names if name not in following}


def _differ(name: str, there: JSON, here: JSON) -> bool:
    # In Python 1 == True == 1.0. As options of a space they are three different ones; as settings they mean the same.
    if name.startswith("space."):
        return json.dumps(there, sort_keys=True) != json.dumps(here, sort_keys=True)
    return bool(there != here)


def _compared(there: Mapping[str, JSON], here: Mapping[str, JSON]) -> Callable[[str], bool]:
    """Return which parts to compare: digests only if both runs have them, bytecode only of the same Python version."""
    both = PYTHON in there and PYTHON in here
    same = both and there[PYTHON] == here[PYTHON]
    passed = CALLBACKS in there and CALLBACKS in here
    looked = {
        UNKNOWN: both,
        MAKES: same,
        TRAINED: TRAINED in there and TRAINED in here,
        DATA: both and there.get(DATA_PYTHON) == here.get(DATA_PYTHON),
        CALLBACKS: passed,
        PASSED: COMPILED in there and there[COMPILED] == here.get(COMPILED),
        PASSED_UNKNOWN: passed,
    }
    return lambda name: (
        not name.startswith(_FOR_PEOPLE) and looked.get(name, same or not name.startswith("problem.made."))
    )


def _changed_parts(part: str, found: Mapping[str, JSON], asked: Mapping[str, JSON]) -> str:
    """Name the parts of the code that changed, are new or gone; empty if there are none or an older run lacks them."""
    names: dict[str, None] = {}
    kind = "policy" if part == PASSED else "problem"
    match found.get(kind), asked.get(kind):
        case {"passed": {"parts": dict(there)}}, {"passed": {"parts": dict(here)}}:
            names.update(_differing(there, here))
        case {"parts": dict(there)}, {"parts": dict(here)} if there and here:
            names.update(_differing(there, here))
    match found.get(kind), asked.get(kind):
        case {"made": {"parts": dict(there)}}, {"made": {"parts": dict(here)}} if not names:
            names.update(_differing(there, here))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(f"{name:.80}" for name in list(names)[:SHOWN]) + more


def _differing(there: Mapping[str, JSON], here: Mapping[str, JSON]) -> dict[str, None]:
    return {str(name): None for name in [*there, *here] if there.get(name) != here.get(name)}


def _parts(name: str, value: JSON) -> Iterator[tuple[str, JSON]]:
    """Yield the parts of an identity by dotted name; the parts of a space are its choices."""
    match value:
        # By choice, so that the message names the one that changed instead of printing two whole spaces.
        case {"name": space, "choices": list(choices)} if name == "space":
            yield "space.name", space
            for choice in choices:
                match choice:
                    case [str(option), options]:
                        yield f"space.{option}", options
                    case other:
                        yield "space.?", other
            # With other source the recorded choices may stand for other hyper-parameters. A function that builds
            # models is part of the problem, whose source is compared, unless its version decides.
            if "unit" in value and "builder" in value:
                yield MAKES, value["builder"]
            yield "space.order", [choice[0] if isinstance(choice, list) and choice else None for choice in choices]
        case dict():
            for key, part in value.items():
                yield from _parts(f"{name}.{key}" if name else str(key), part)
        case _:
            yield name, value


def _say(part: str, there: JSON, here: JSON, changed: str) -> str:
    if part == SOURCE:
        return "problem: its source has changed since the run was begun" + (changed and f": {changed}")
    if part == MADE:
        return "problem: what it calls, reads or holds has changed since the run was begun" + (
            changed and f": {changed}"
        )
    if part == MAKES:
        return "space: the function that makes hyper-parameters of the choices has changed since the run was begun"
    if part == PASSED:
        return "callbacks, or the function that freezes: what they call, read or hold has changed" + (
            changed and f": {changed}"
        )
    if part == BACKEND:
        names = (TENSORFLOW if value is None else value for value in (there, here))
        return "Keras' backend: {} there, {} here (KERAS_BACKEND says which)".format(*names)
    if part in _NOT_KNOWN:
        kind = "problem" if part == UNKNOWN else "callbacks"
        parts = here if isinstance(here, list) else there if isinstance(there, list) else []
        words = ", ".join(map(str, parts[:SHOWN]))
        return f"{kind}: nobody can tell whether it is the same, since this can't be looked into: {words}"
    kind, _, name = part.partition(".")
    # A choice that is called so has a list of options.
    if kind == "space" and part.endswith(MUTATION) and there is None and isinstance(here, str):
        return f"space: this version of daskevo mutates its candidates in another way, by {here}"
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
