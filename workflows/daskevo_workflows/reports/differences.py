"""Short descriptions of the differences between runs, for arms with equal policies. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from daskevo.types import JSON
from daskevo_plugins.formatting import plain
from daskevo_workflows.reports.run_reader import say_json
from daskevo_workflows.reports.series import RunSeries

MOST_SAID = 2
"""Maximum number of differences in a name."""

LONGEST = 24
"""Maximum number of characters of a value; a longer one, such as a hash, tells a reader nothing."""


def by_difference(labels: Sequence[str], runs: Sequence[RunSeries]) -> list[str]:
    """Return unique labels: to a repeated one add what distinguishes its run, a setting or the run's name."""
    found = list(labels)
    for label in {label for label in labels if labels.count(label) > 1}:
        places = [place for place, one in enumerate(labels) if one == label]
        words = differences([runs[place].identity for place in places])
        for i, place in enumerate(places):
            found[place] = f"{label}, {words[i]}" if words else plain(f"{label} ({runs[place].label})", 80)
    return found


def differences(identities: Sequence[Mapping[str, JSON]]) -> list[str]:
    """Return for each identity the settings that differ, except seeds; empty if none distinguishes them.

    Examples
    --------
    >>> differences([{"policy": {"epochs": 4, "freeze": "all"}}, {"policy": {"epochs": 8, "freeze": "all"}}])
    ['epochs 4', 'epochs 8']
    >>> differences([{"problem": {"name": "moons"}}, {"problem": {"name": "digits"}}])
    ['problem moons', 'problem digits']
    >>> differences([{"seed": 1}, {"seed": 2}])
    []
    """
    settings = [dict(_leaves(identity)) for identity in identities]
    names = [
        name
        for name in dict.fromkeys(name for one in settings for name in one)
        # Arms differ by more than their seed, which is the one setting that all of their runs differ by.
        if name != ("seed",)
        and len(set(values := [one.get(name, "none") for one in settings])) > 1
        and max(map(len, values)) <= LONGEST
    ][:MOST_SAID]
    words = [plain(", ".join(f"{_word(name)} {one.get(name, 'none')}" for name in names), 80) for one in settings]
    # Two of the settings may not tell all runs apart; then none is said, and the runs' names are used.
    return words if len(set(words)) == len(words) else []


def _word(name: tuple[str, ...]) -> str:
    """Return what a setting is called: of a problem's or strategy's name, what it is the name of."""
    return name[-2 if name[-1] == "name" and len(name) > 1 else -1].replace("_", " ")


def _leaves(value: Mapping[str, JSON], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, part in value.items():
        if isinstance(part, dict):
            yield from _leaves(part, (*above, name))
        else:
            yield (*above, name), say_json(part)
