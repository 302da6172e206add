"""Forecasts of searches, beside what known runs took."""

from __future__ import annotations

import contextlib
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from daskevo.errors import InvalidInput
from daskevo.runs import RunRecord, RunView
from daskevo.search import Report, Request
from daskevo.space import Candidate
from daskevo_workflows.cli import main, run_frame
from daskevo_workflows.cli.json_lines import FORECAST_KEYS
from daskevo_workflows.cli.run_messages import say_first_is_slow
from daskevo_workflows.execution.machine_load import Load, LoadNotes, is_one_here, load_of
from daskevo_workflows.results.forecast import Measured, Sample, forecast
from daskevo_workflows.results.forecast_measures import measure
from tests.runs.identity import IDENTITY


def measured(seconds: list[float], **options: float) -> Measured:
    samples = [Sample(one, number == 0, 100, 400) for number, one in enumerate(seconds)]
    return Measured(samples, 1, **{"start_s": 5.0, "gap_s": 0.5, **options})  # type: ignore[arg-type]


def simulated(seconds: list[float], trainers: int, start_s: float, gap_s: float) -> float:
    """Return what a search takes whose evaluations are handed to whoever is free first."""
    free = [start_s] * trainers
    for one in seconds:
        place = free.index(min(free))
        free[place] += one + gap_s
    return max(free) - gap_s


def test_equal_evaluations_are_foretold_exactly() -> None:
    found = forecast(measured([13.0, 3.0, 3.0, 3.0]), 100, 1)
    # The first takes 10 s more.
    assert found.seconds.value == found.seconds.low == found.seconds.high == 5 + 10 + 100 * 3.5
    assert found.all_bytes == 10_000
    assert found.full_bytes == 40_000
    assert found.jobs is None


@pytest.mark.parametrize("trainers", [1, 2, 8, 64])
def test_a_search_from_its_first_ten_evaluations(trainers: int) -> None:
    """Over a hundred searches of lognormal seconds: right in the mean, and mostly within the range."""
    within, ratios = 0, []
    for seed in range(100):
        draws = random.Random(seed)
        seconds = [draws.lognormvariate(1.0, 0.4) for _ in range(640)]
        found = forecast(measured([seconds[0], *seconds[:10]]), 640, trainers)
        taken = simulated(seconds, trainers, 5.0, 0.5)
        ratios.append(found.seconds.value / taken)
        within += found.seconds.low <= taken <= found.seconds.high
    assert sum(ratios) / 100 == pytest.approx(1.0, abs=0.05)
    assert within >= 80


def test_jobs_of_a_walltime_hold_what_was_foretold() -> None:
    found = forecast(measured([13.0, 3.0, 3.0, 3.0]), 100, 2, walltime_s=120.0, grace_s=20.0)
    # 120 s less 20 to end, 15 to begin, half an evaluation: 23 turns of 3.5 s for each of two trainers.
    assert found.evaluations_per_job == 2 * 23
    assert found.jobs is not None
    assert (found.jobs.value, found.jobs.low, found.jobs.high) == (3, 3, 3)
    assert any("120.00 s of walltime" in line for line in found.assumptions)
    with pytest.raises(InvalidInput, match=r"no trainer ends an evaluation.*take longer jobs"):
        forecast(measured([13.0, 3.0, 3.0, 3.0]), 100, 2, walltime_s=30.0)


def test_processes_that_are_started_again() -> None:
    """Each restart costs what a first evaluation does, and the time that the process takes."""
    found = forecast(measured([13.0, 3.0, 3.0, 3.0], recycle_after=20, restart_s=2.5), 100, 1)
    assert found.seconds.value == 5 + 10 + 100 * 3.5 + 4 * (10 + 2)
    assert any("after 20 evaluations (that takes 2.50 s)" in line for line in found.assumptions)
    found = forecast(measured([13.0, 3.0, 3.0, 3.0], recycle_after=20), 20, 1)
    assert found.seconds.value == 5 + 10 + 20 * 3.5
    assert any("none has been measured yet" in line for line in found.assumptions)
    # 120 s less 20, 15 and 1.5: 83.5 s, of which 20 turns take 70, and each restart 10.
    found = forecast(measured([13.0, 3.0, 3.0, 3.0], recycle_after=20), 100, 2, walltime_s=120.0, grace_s=20.0)
    assert found.evaluations_per_job == 2 * 21


def test_bytes_of_those_that_live() -> None:
    few = measured([13.0, 3.0, 3.0, 3.0], kept=10, living_share=0.3)
    assert forecast(few, 100, 2).living_bytes == 12 * 400 * 0.3
    assert forecast(few, 5, 2).living_bytes == 500
    assert "not sampled" not in " ".join(forecast(few, 100, 2).assumptions)
    assert "not sampled" in " ".join(forecast(measured([13.0, 3.0, 3.0]), 100, 2).assumptions)


def test_too_little_is_no_forecast() -> None:
    with pytest.raises(InvalidInput, match="2 evaluations finished, and a forecast needs 3"):
        forecast(measured([3.0, 3.0]), 100, 1)
    with pytest.raises(InvalidInput, match="trainers=0"):
        forecast(measured([3.0] * 3), 100, 0)


EVOLUTION = {**IDENTITY, "strategy": {"name": "evolution", "settings": {"population": 3, "sample": 2}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run on two trainers: the first evaluation of each takes 11 s, the others 1 s, with 2 s between them."""
    record = RunRecord(tmp_path / "run", EVOLUTION, {})
    try:
        requests = [Request(number, f"run-{number:05}", Candidate((number,))) for number in range(8)]
        record.asked(requests)
        with RunView(tmp_path / "run") as view:
            opened = view.sessions()[-1].opened
        at = {"a": opened + 4.0, "b": opened + 5.0}
        for request in requests:
            worker = "ab"[request.number % 2]
            ended = at[worker] + (11.0 if request.number < 2 else 1.0)
            report = Report(
                request.number,
                request.model_id,
                "finished",
                quality=0.5,
                started=at[worker],
                ended=ended,
                worker=worker,
                own_bytes=100,
                full_bytes=400,
            )
            record.reported(report, [], [])
            at[worker] = ended + 2.0
            if request.number == 5:
                record.event("storage", "", stored_bytes=150, full_copy_bytes=500)
                record.event("load", "", host="here", load=5.0, cores=4)
                record.event("load", "", host="here", load=7.0, cores=4)
    finally:
        record.close("finished")
    return tmp_path / "run"


def test_what_a_record_says(folder: Path) -> None:
    found = measure(folder)
    assert [(sample.seconds, sample.first) for sample in found.samples] == [
        (pytest.approx(11.0), True),
        (pytest.approx(11.0), True),
        *[(pytest.approx(1.0), False)] * 6,
    ]
    assert found.trainers == 2
    assert found.start_s == pytest.approx(4.0)
    assert found.gap_s == pytest.approx(2.0)
    assert found.kept == 3 + 5
    assert found.living_share == 0.3
    assert found.load == Load(6.0, 7.0, 4, 2)
    first = measure(folder, first=4)
    assert len(first.samples) == 4
    with RunRecord(folder, EVOLUTION, {}) as record:
        record.event("session", "", keep_best=2)
    assert measure(folder).kept == 3 + 2
    assert first.load is None
    assert first.living_share is None


def test_what_a_record_says_of_restarts(tmp_path: Path) -> None:
    """What follows a restart is a first evaluation, and the time until it no ordinary gap."""
    record = RunRecord(tmp_path / "run", IDENTITY, {})
    try:
        requests = [Request(number, f"run-{number:05}", Candidate((number,))) for number in range(4)]
        record.asked(requests)
        record.event("session", "", recycle_after=2)
        record.event("recycled", "a after 2 evaluations", worker="a")
        with RunView(tmp_path / "run") as view:
            now = view.events("recycled")[0].time
        for request, begun in zip(requests, (now - 5.5, now - 2, now + 7, now + 10.5), strict=True):
            report = Report(request.number, request.model_id, "finished", quality=0.5, worker="a")
            record.reported(replace(report, started=begun, ended=begun + 2), [], [])
    finally:
        record.close("finished")
    found = measure(tmp_path / "run")
    assert [sample.first for sample in found.samples] == [True, False, True, False]
    assert found.recycle_after == 2
    assert found.restart_s == pytest.approx(7.0)
    assert found.gap_s == pytest.approx(1.5)


def test_the_load_of_one_machine() -> None:
    """Of those whose trainers were elsewhere, or on several, nothing is said; nor is idle time warned of."""
    one, other = {"host": "a", "load": 1.0, "cores": 2}, {"host": "b", "load": 9.0, "cores": 64}
    assert load_of([one, {"host": "a"}, {"load": "high", "cores": 2}]) == Load(1.0, 1.0, 2, 1)
    assert not Load(2.0, 3.0, 2, 2).is_too_much
    assert load_of([one, other]) is load_of([]) is None
    assert "is not known" in " ".join(forecast(measured([3.0] * 3), 10, 1).assumptions)
    assert is_one_here(["tcp://10.0.0.9:1", "tcp://127.0.0.1:2"], [])
    assert is_one_here(["tls://[fe80::1]:7"], ["fe80::1"])
    assert not is_one_here(["tcp://10.0.0.9:1"], ["10.0.0.8"])


def test_it_is_noted_now_and_then_where_a_trainer_is_here() -> None:
    noted: list[dict[str, object]] = []

    class Record:
        def event(self, kind: str, message: str, number: int | None = None, **facts: object) -> None:
            noted.append({"kind": kind, **facts})

    notes = LoadNotes(Record())
    notes.look([])
    notes.look(["tcp://192.0.2.1:1"])
    assert not noted
    notes.look(["tcp://127.0.0.1:1"], at_once=True)
    notes.look(["tcp://127.0.0.1:1"])
    assert [one["kind"] for one in noted] == ["load"]
    assert load_of(noted) is not None


def test_a_study_has_a_forecast_of_its_own(tmp_path: Path) -> None:
    RunRecord(tmp_path / "run", {**IDENTITY, "strategy": {"name": "a study", "settings": {}}}, {}).close("closed")
    with pytest.raises(InvalidInput, match=r"Study\.forecast"):
        measure(tmp_path / "run")


def test_a_search_in_parts_is_not_foretold_by_its_first_parts(tmp_path: Path) -> None:
    RunRecord(tmp_path / "run", {**EVOLUTION, "unit": "epoch"}, {}).close("closed")
    with pytest.raises(InvalidInput, match="trains candidates in parts of different lengths"):
        measure(tmp_path / "run")


def test_the_command_says_what_it_rests_on(folder: Path) -> None:
    words = ["forecast", str(folder), "--evaluations", "100", "--trainers", "4", "--walltime", "00:02:00", "--json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    line = json.loads(result.stdout)
    assert tuple(line) == FORECAST_KEYS
    assert line["seconds"]["value"] == pytest.approx(4 + 10 + 25 * 3.0 + 0.5 * 3 / 4)
    assert line["jobs"]["value"] >= 1
    assert "100 evaluations on 4 trainers: 89.38 s" in result.stderr
    for assumption in line["assumptions"]:
        assert f"  - {assumption}" in result.stderr
    assert line["load"] == {"mean": 6.0, "highest": 7.0, "cores": 4, "looks": 2}
    assert "a load average of 1.50 per core (4 cores, 2 looks, 1.75 at most)" in result.stderr
    assert "Warning: the machine had more to do than it has cores" in result.stderr
    assert "a load average of 6.0 on 4 cores" in result.stderr
    refused = CliRunner().invoke(main, [*words[:6], "--walltime", "00:00:20"])
    assert refused.exit_code == 2
    assert "take longer jobs" in refused.stderr


def test_a_measuring_that_is_stopped_before_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it stays, and it is begun by what was typed: there is no --run, and no population."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "digits-forecast"

    def stop(scheduler: object, what: str) -> None:
        say_first_is_slow(None, what)
        (folder / "repository" / "shards").mkdir(parents=True)
        (folder / "repository" / "repository.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(run_frame, "say_first_is_slow", stop)
    monkeypatch.setattr(run_frame, "say_where", lambda *args: None)
    monkeypatch.setattr(run_frame, "a_cluster", lambda *args, **options: contextlib.nullcontext())
    words = ["forecast", "digits", "--evaluations", "100", "--trainers", "4", "--measure", "10"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 130, result.output
    assert result.stderr.endswith(f" forecast {' '.join(words[1:])}\n"), result.stderr
    assert "--population" not in result.stderr
    assert not (tmp_path / "runs").exists()
