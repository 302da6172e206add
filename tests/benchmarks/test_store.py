"""`python -m benchmarks.store` at toy size, and the rivals: what each writes, it reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.store.__main__ import main
from benchmarks.store.keras_files import keras_rivals
from benchmarks.store.rivals import Rival, file_rivals
from benchmarks.store.tasks import Case, Shape, graph_of, tensors_of

SHAPE = Shape("toy", 8, 3)


@pytest.mark.long
@pytest.mark.processes
def test_a_quick_run_measures_everything(tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["--quick", "--json", "--plot", str(tmp_path / "plot.svg")])
    assert found.exit_code == 0, found.output
    rows = json.loads(found.stdout.splitlines()[-1])
    assert all(
        row.keys() == {"case", "writer", "seconds", "gb_per_s", "ratio_to_h5", "ratio_to_memcpy"} for row in rows
    )
    ours = {row["case"]: row for row in rows if row["writer"] == "daskevo"}
    for percent in (25, 50, 75, 100):
        assert ours[f"toy, put, {percent} % changed, disk"]["seconds"] > 0
        assert f"toy, put, {percent} % changed, disk, fsync" in ours
    assert {"toy, read all, disk", "toy, read half, disk", "toy, read 1 layer, disk"} < ours.keys()
    assert "toy, put, 100 % changed, disk, 2 at a time" in ours
    assert any(case.startswith("query during a put") for case in ours)
    row = ours["toy, read all, disk"]
    assert row["gb_per_s"] == pytest.approx(4 * 8 * 16 * 17 / row["seconds"] / 1e9)
    copies = {row["case"]: row for row in rows if row["writer"] == "memcpy"}
    assert row["ratio_to_memcpy"] == pytest.approx(copies["toy, read all, disk"]["seconds"] / row["seconds"])
    drawn = (tmp_path / "plot.svg").read_text()
    assert "<svg" in drawn
    assert "mathdefault" not in drawn


@pytest.mark.parametrize("rival", file_rivals(), ids=lambda rival: rival.name)
@pytest.mark.parametrize("synced", [False, True])
def test_a_rival_reads_what_it_wrote(rival: Rival, synced: bool, tmp_path: Path) -> None:
    tensors = tensors_of(SHAPE, 0)
    rival.write(tmp_path, tensors, synced)
    for numbers in (range(6), [4]):
        found = rival.read(tmp_path, numbers)
        assert found.keys() == set(numbers)
        assert all((np.ravel(found[number]) == tensors[number].ravel()).all() for number in numbers)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' variables, to numpy 2
@pytest.mark.parametrize("place", [0, 1])
def test_keras_files_hold_as_many_bytes(place: int, tmp_path: Path) -> None:
    rival = keras_rivals(SHAPE.width, SHAPE.layers)[place]
    rival.write(tmp_path, tensors_of(SHAPE, 0), True)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size > SHAPE.nbytes
    rival.read(tmp_path, range(6))


def test_cases_name_the_layers_that_they_concern() -> None:
    assert graph_of(SHAPE).nbytes == SHAPE.nbytes == sum(array.nbytes for array in tensors_of(SHAPE, 0).values())
    assert list(Case("", "put", 0.25).numbers(Shape("", 1, 8))) == [12, 13, 14, 15]
    assert list(Case("", "read", 0.5).numbers(Shape("", 1, 4))) == [0, 1, 2, 3]
    assert list(Case("", "read", 0.0).numbers(Shape("", 1, 4))) == [0, 1]
