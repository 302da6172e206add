"""Golden files open for ever, and hostile ones give one named error each: no other exception, no claimed memory."""

from __future__ import annotations

import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import daskevo
from daskevo.errors import DaskevoError
from daskevo.runs import RunView
from daskevo.store.digests import digest
from daskevo_workflows.cli import main
from tests.cluster.helpers import values
from tests.corpus.hostile import CASES, Case
from tests.corpus.make_golden import FIRST, SECOND

GOLDEN = Path(__file__).parent / "golden" / "v1"
MOST_BYTES = 64 << 20


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN, tmp_path / "v1")
    return tmp_path / "v1"


def outcome(folder: Path) -> list[str]:
    """Open and read everything under root and run; return what was said."""
    said = []
    try:
        found = daskevo.open(folder / "root").verify()
        said += found.to_json()["differences"]
    except DaskevoError as error:
        said.append(f"{type(error).__name__}: {error}")
    try:
        with RunView(folder / "run") as run:
            for read in (run.requests, run.reports, run.units, run.events, run.sessions, run.label_changes):
                read()
            run.population()
    except DaskevoError as error:
        said.append(f"{type(error).__name__}: {error}")
    return said


def test_golden_files_of_version_1(copy: Path) -> None:
    assert outcome(copy) == []
    repository = daskevo.open(copy / "root", "test")
    assert [(model.model_id, model.quality, model.labels) for model in repository.models()] == [
        ("Second", 0.9, ("user:paper",)),
        ("third", 0.1, ("user:kept",)),
    ]
    read, made, kept = repository.read("Second"), values(SECOND, 2), values(FIRST, 1)
    for number, array in enumerate(read.values()):
        np.testing.assert_array_equal(array, kept[number] if number < 4 else made[number])
        assert digest(array) == repository.record("Second").owner_map.entries[number].digest
    assert [record.model_id for record in repository.lineage("Second")] == ["Second", "first"]
    assert repository.best_match([SECOND])[0].model_id == "Second"
    with RunView(copy / "run") as run:
        assert [report.status for report in run.reports()] == ["finished", "failed"]
        assert [request.candidate.values for request in run.requests()] == [(0, 1), (1, 1)]
        assert run.info.identity["objective"] == "max q"
    # And a repair, which writes all of it anew, keeps what was there.
    assert repository.verify(repair=True).clean
    for key, array in daskevo.open(copy / "root").read("Second").items():
        np.testing.assert_array_equal(array, read[key])


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_hostile_file_is_named(case: Case, copy: Path) -> None:
    path = copy / case.file
    path.write_bytes(case.change(path.read_bytes() if path.exists() else b""))
    tracemalloc.start()
    said = outcome(copy)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < MOST_BYTES, f"{case.name} took {most} bytes"
    if not case.error:
        assert said == [], case.why
        return
    lines = [line for line in said if line.startswith(f"{case.error}: ") and case.says in line]
    assert len(lines) == 1, (case.why, said)
    if "later version" in case.says:
        assert "damaged at byte" not in lines[0]
        assert "from a copy" not in lines[0]
    if case.file.startswith("root/"):
        told = CliRunner().invoke(main, ["verify", str(copy / "root")])
    elif case.name.startswith("record-") and not case.name.endswith(("other", "requests-cut", "reports-deep")):
        return  # a report takes its time, and reads each table in the same way
    else:
        told = CliRunner().invoke(main, ["report", str(copy / "run")])
    assert told.exit_code in (1, 2)
    assert isinstance(told.exception, SystemExit)
    assert case.says in told.stdout + told.stderr
