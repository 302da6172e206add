"""Writes golden files: a small repository and a small run's folder, as this version of daskevo makes them.

``python -m tests.corpus.make_golden FOLDER``. What is checked in under ``golden/`` is never made again: later versions
must read it as it is. A new version of a format gets a folder of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from daskevo.runs import LabelChange, RunRecord, plan
from daskevo.search import Failure, Report, Request
from daskevo.space import Candidate
from daskevo.types import ModelId
from tests.cluster.helpers import at_rest, chain, evo_cluster, make, open_here
from tests.runs.identity import IDENTITY

FIRST, SECOND = chain(8, 6, 3), chain(8, 6, 5)


def make_root(root: Path) -> None:
    """Make a repository of two shards: `first` is retired, `Second` inherits from it, `third` from nobody."""

    @evo_cluster()
    async def fill(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, root, shards=2)
        await make(repository, FIRST, "first", seed=1)
        await make(repository, SECOND, "Second", seed=2, score=0.9, labels=["user:paper", "population:run"])
        await make(repository, chain(3), "third", seed=3, score=0.1)
        await repository.release("Second", "population:run")
        await repository.retire("first")
        await at_rest(s, a)

    fill()
    for reserve in root.glob("shards/*/reserve"):
        reserve.unlink()  # random bytes, made again by the next opener


def make_run(folder: Path) -> None:
    """Make the folder of a run with a finished and a failed evaluation."""
    requests = [Request(n, ModelId(f"m{n}"), Candidate((n, 1))) for n in range(2)]
    record = RunRecord(folder, IDENTITY, {"repository": None, "scope": "x"})
    record.asked(requests)
    units = plan(requests, seconds=2.0)
    record.planned({0: "a", 1: "b"}, units)
    record.unit_placed(units[0].key, "trainer-0")
    finished = Report(0, ModelId("m0"), "finished", quality=0.5, step=45, metrics={"q": 0.5})
    record.reported(finished, [], [LabelChange("hold", "best:x", ModelId("m0"))])
    failed = Report(1, ModelId("m1"), "failed", failure=Failure("error", "ValueError: no", "Traceback ..."))
    record.reported(failed, [], [])
    record.unit_ended(units[0].key, "done", 1.0, 2.0)
    record.event("recycled", "trainer-0", 1, worker="trainer-0")
    record.close("finished")
    (folder / "run.lock").unlink()


if __name__ == "__main__":
    make_root(Path(sys.argv[1]) / "root")
    make_run(Path(sys.argv[1]) / "run")
