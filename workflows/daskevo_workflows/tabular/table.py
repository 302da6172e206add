"""A table: every candidate of a small space with the results of its training, read from a JSON file and checked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daskevo.errors import CorruptRecord, DaskevoError, InvalidInput, LaterVersion
from daskevo.space import Candidate, Space
from daskevo.types import JSON, Objective
from daskevo_workflows.problems.building import space_of
from daskevo_workflows.problems.reference import BUILT_IN, load_problem

FORMAT, VERSION = "daskevo table", 1
SHIPPED = Path(__file__).with_name("digits.json")
"""343 candidates of the problem `digits`; how they were trained stands in the file, under ``recipe``."""
MOST_BYTES = 50_000_000
MOST_CANDIDATES = 100_000


@dataclass(frozen=True, slots=True)
class Architecture:
    """Results of training one architecture, which several candidates may have.

    Parameters
    ----------
    id:
        Digest of its vertex ids, 32 hexadecimal digits.
    parameters:
        Number of weights, including those that aren't trained.
    seconds:
        CPU seconds of training, by seed: a figure of the machine that made the table.
    qualities:
        The objective's metric after each epoch, by seed. # (n_seeds, n_epochs)
    """

    id: str
    parameters: int
    seconds: tuple[float, ...]
    qualities: tuple[tuple[float, ...], ...]

    @property
    def mean(self) -> float:
        """Mean over the seeds of the quality after the last epoch."""
        return sum(each[-1] for each in self.qualities) / len(self.qualities)


@dataclass(frozen=True)
class Table:
    """All candidates of a space with the results of their training.

    Parameters
    ----------
    space:
        The candidates' space.
    objective:
        The metric of `qualities`, and its direction.
    epochs, steps_per_epoch, seeds:
        Length of each training, and the seeds with which it was repeated.
    recipe:
        How the table was made, for people: problem, settings, versions, machine.
    architectures:
        Each once, in the order of their first candidates.
    index:
        Candidate -> place of its architecture.
    """

    space: Space
    objective: Objective
    epochs: int
    steps_per_epoch: int
    seeds: tuple[int, ...]
    recipe: Mapping[str, JSON]
    architectures: tuple[Architecture, ...]
    index: Mapping[Candidate, int]

    def __getitem__(self, candidate: Candidate) -> Architecture:
        return self.architectures[self.index[candidate]]

    def __len__(self) -> int:
        return len(self.index)

    @property
    def best(self) -> Architecture:
        """The architecture with the best mean over the seeds."""
        return max(self.architectures, key=lambda each: self.objective.rank(each.mean))


def load_table(path: str | Path | None = None) -> Table:
    """Read a table.

    Parameters
    ----------
    path:
        A file as ``python -m daskevo_workflows.tabular.make`` writes it; None = the one that comes with daskevo.

    Raises
    ------
    InvalidInput
        If there is no such file.
    CorruptRecord
        If it isn't a whole table: cut, damaged, or of a space that this version doesn't make.
    LaterVersion
        If a later daskevo wrote it.
    """
    path = SHIPPED if path is None else Path(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise CorruptRecord(f"{path} is no table: it has more than {MOST_BYTES} bytes", path=str(path))
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"the table {path} can't be read: {error.strerror}", path=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise CorruptRecord(f"{path} is no table: it is no JSON, or was cut ({error})", path=str(path)) from error
    try:
        return _table(value)
    # Not a damaged table: whoever has a newer file needs a newer daskevo.
    except LaterVersion:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, DaskevoError) as error:
        raise CorruptRecord(
            f"{path} is no whole table ({type(error).__name__}: {str(error)[:200]}); make it anew: "
            "python -m daskevo_workflows.tabular.make",
            path=str(path),
        ) from error


def _table(value: Any) -> Table:
    if value["format"] != FORMAT:
        raise CorruptRecord(f"its format is {value['format']!r:.60}")
    if value["version"] != VERSION:
        raise LaterVersion(f"the table has version {value['version']!r:.20}; this daskevo reads {VERSION}")
    problem = value["problem"]
    # Only our own problems: a name may also be the path of a file, which would be run.
    if problem["name"] not in BUILT_IN:
        raise CorruptRecord(f"there is no problem {problem['name']!r:.60}")
    space = space_of(load_problem(problem["name"], **problem["settings"]))
    # Candidates are numbered in the order of the space: in another one they would be other models.
    if not isinstance(space, Space) or space.to_json() != value["space"]:
        raise CorruptRecord(f"problem {problem['name']!r} makes another space now")
    seeds = tuple(_whole(seed) for seed in _filled(value["seeds"]))
    epochs = _whole(value["epochs"], 1)
    architectures = tuple(_architecture(each, len(seeds), epochs) for each in _filled(value["architectures"]))
    places = [_whole(place) for place in value["candidates"]]
    if len({each.id for each in architectures}) < len(architectures):
        raise CorruptRecord("an architecture is in it twice")
    if space.size.count != len(places) or set(places) != set(range(len(architectures))):
        raise CorruptRecord(
            f"it has {len(places)} candidates, the space has {space.size}, or architectures are missing"
        )
    index = dict(zip(space.enumerate(MOST_CANDIDATES), places, strict=True))
    steps = _whole(value["steps_per_epoch"], 1)
    objective = Objective.parse(value["objective"])
    return Table(space, objective, epochs, steps, seeds, dict(value["recipe"]), architectures, index)


def _filled(value: Any) -> Sequence[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_CANDIDATES:
        raise CorruptRecord("a list is empty, missing or too long")
    return value


def _whole(value: Any, least: int = 0) -> int:
    # Not isinstance: True and False are ints.
    if type(value) is not int or not least <= value < 2**53:
        raise CorruptRecord(f"{value!r:.40} is no whole number from {least}")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise CorruptRecord(f"{value!r:.40} is no finite number")
    return float(value)


def _architecture(value: Any, seeds: int, epochs: int) -> Architecture:
    if not re.fullmatch(r"[0-9a-f]{32}", value["id"]):
        raise CorruptRecord(f"{value['id']!r:.60} names no architecture")
    qualities = tuple(tuple(_number(quality) for quality in each) for each in value["qualities"])
    seconds = tuple(_number(each) for each in value["seconds"])
    if len(qualities) != seeds or len(seconds) != seeds or any(len(each) != epochs for each in qualities):
        raise CorruptRecord(f"architecture {value['id']} lacks qualities of some seed or epoch")
    return Architecture(value["id"], _whole(value["parameters"], 1), seconds, qualities)
