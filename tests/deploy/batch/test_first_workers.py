"""What goes wrong before a search has a worker is said plainly, with the next step, within its time limit."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import pytest

import daskevo
from daskevo.deploy.batch import first_workers, jobs
from daskevo.deploy.batch.first_workers import last_words, wait_for_workers
from daskevo.deploy.batch.job_status import JobReport
from daskevo.deploy.batch.refusals import refusal
from daskevo.errors import BatchSystemError
from tests.deploy.batch.fake import FakeSlurm
from tests.waiting import wait_until

MESSAGE = "Exit code: {}\nCommand:\nsbatch x\nstdout:\n\nstderr:\n{}\n"
"""What dask-jobqueue makes of a command that fails."""


@contextmanager
def cluster_of(folder: Path, jobs: int = 1, **options: Any) -> Iterator[Any]:
    # Dask silences its log by the level of handlers, and pytest's handlers are among them: caplog would miss warnings.
    given: dict[str, Any] = {"cores": 4, "memory": "8GiB", "walltime": "01:00:00", "silence_logs": False}
    given["scheduler_options"] = {"host": "127.0.0.1"}
    with daskevo.batch_cluster("slurm", jobs=jobs, log_directory=folder / "logs", **{**given, **options}) as cluster:
        yield cluster


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    return FakeSlurm(tmp_path / "fake", monkeypatch)


@pytest.fixture(autouse=True)
def asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_workers, "ASK_EVERY_S", 0.01)
    monkeypatch.setattr(first_workers, "LOOK_S", 0.02)


def test_without_a_batch_system(fake: FakeSlurm, tmp_path: Path) -> None:
    fake.remove("sbatch")
    with cluster_of(tmp_path) as cluster, pytest.raises(BatchSystemError, match="there is no 'sbatch' here"):
        wait_for_workers(cluster)


def test_a_command_that_can_not_be_run(fake: FakeSlurm, tmp_path: Path) -> None:
    fake.remove("sbatch")
    (fake.folder / "sbatch").write_text("a file that is no program")
    with cluster_of(tmp_path) as cluster, pytest.raises(BatchSystemError, match="'sbatch' could not be run here: "):
        wait_for_workers(cluster, start_timeout_s=5.0)


def test_a_queue_that_refuses_is_quoted(fake: FakeSlurm, tmp_path: Path) -> None:
    fake.write("sbatch", 'echo "sbatch: error: invalid partition specified: gold" >&2; exit 1')
    with (
        cluster_of(tmp_path, queue="gold") as cluster,
        pytest.raises(BatchSystemError, match="sbatch took no job: 'sbatch: error: invalid partition specified: gold'"),
    ):
        wait_for_workers(cluster)
    assert fake.cancelled() == []


@pytest.mark.parametrize(
    ("said", "late"),
    [
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)", False),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", True),
        ("Connection refused\nqsub: cannot connect to server pbs.example.org (errno=111)", False),
        ("error: commlib error: got select error (Connection refused)", False),
    ],
)
def test_a_batch_system_that_does_not_answer_is_no_refusal(said: str, late: bool) -> None:
    found = refusal("qsub" if "qsub" in said else "sbatch", MESSAGE.format(1, said))
    assert not found.answered
    assert "does not answer" in found.words
    assert "walltime" not in found.words
    assert ("may have been taken" in found.words) is late
    assert ("`qstat -B`" if "qsub" in said else "`sinfo`") in found.words


def test_a_command_that_says_nothing() -> None:
    assert "sbatch took no job: it says nothing, exit code 3." in refusal("sbatch", MESSAGE.format(3, "")).words


@pytest.mark.parametrize("hears", [True, False])
def test_a_failure_is_said_once_and_leaves_no_folder(
    fake: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hears: bool
) -> None:
    """By whoever waits for jobs, or by the log where nobody does."""

    def logged() -> list[logging.LogRecord]:
        return [record for record in caplog.records if "does not answer" in record.getMessage()]

    monkeypatch.setattr(jobs, "UNHEARD_S", 600.0 if hears else 0.0)
    fake.write("sbatch", 'echo "sbatch: error: Unable to contact slurm controller (connect failure)" >&2; exit 1')
    with cluster_of(tmp_path, jobs=2) as cluster:
        if hears:
            with pytest.raises(BatchSystemError, match="does not answer sbatch") as caught:
                wait_for_workers(cluster)
            assert caught.value.facts["answered"] is False
            for error in cluster.failures:  # as it would be, a moment later
                cluster._say(error)
        else:
            wait_until(logged)
            time.sleep(0.3)
    assert len(logged()) == (0 if hears else 1)
    assert not (tmp_path / "logs").exists()


def test_jobs_are_submitted_again_once_it_answers(
    fake: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it has taken some before: it is started anew, say, while a search runs for days."""
    monkeypatch.setattr(jobs, "AGAIN_S", 0.1)
    takes = fake.words("sbatch").read_text()
    with cluster_of(tmp_path) as cluster:
        wait_until(lambda: (fake.folder / "job-1" / "script").exists())
        fake.write("sbatch", f'echo x >>{fake.folder}/asked; echo "Unable to contact slurm controller" >&2; exit 1')
        cluster.scale(jobs=2)
        wait_until(lambda: (fake.folder / "asked").exists() and len(cluster.failures) > 1)
        fake.write("sbatch", takes)
        wait_until(lambda: (fake.folder / "job-2" / "script").exists())
        fake.write("sbatch", 'echo "sbatch: error: invalid partition" >&2; exit 1')
        cluster.scale(jobs=3)
        wait_until(lambda: len(cluster.worker_spec) == 2)


def test_a_command_that_hangs_is_said(fake: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_workers, "SILENT_S", 0.1)
    fake.write("sbatch", f"while [ ! -e {fake.folder}/over ]; do sleep 0.05; done; exit 1")
    said: list[str] = []
    with cluster_of(tmp_path, jobs=0) as cluster:  # to enter it waits for the first jobs to be taken
        try:
            cluster.scale(jobs=1)
            with pytest.raises(BatchSystemError, match="no job was submitted: the batch"):
                wait_for_workers(cluster, start_timeout_s=0.5, on_wait=said.append)
        finally:
            (fake.folder / "over").touch()
    assert said == ["the batch system has not answered sbatch yet"]


def test_an_answer_without_a_job_number_is_quoted(fake: FakeSlurm, tmp_path: Path) -> None:
    fake.write("sbatch", 'echo "try again tomorrow"')
    with cluster_of(tmp_path) as cluster, pytest.raises(BatchSystemError, match="try again tomorrow"):
        wait_for_workers(cluster)


def test_jobs_that_never_start_say_why_and_are_cancelled(fake: FakeSlurm, tmp_path: Path) -> None:
    said: list[str] = []
    with (
        cluster_of(tmp_path, jobs=2) as cluster,
        pytest.raises(BatchSystemError, match=r"no trainer came within 2 s: job \d: PENDING \(Resources\); job"),
    ):
        wait_for_workers(cluster, start_timeout_s=2.0, on_wait=said.append)
    assert said[0].startswith("job ")
    assert sorted(fake.cancelled()) == ["1", "2"]


def test_the_time_limit_is_configured(fake: FakeSlurm, tmp_path: Path) -> None:
    with (
        dask.config.set({"daskevo.batch.start-timeout": "1s"}),
        cluster_of(tmp_path) as cluster,
        pytest.raises(BatchSystemError, match="no trainer came within 1 s"),
    ):
        wait_for_workers(cluster)


def test_a_job_that_ended_at_once_shows_its_log(fake: FakeSlurm, tmp_path: Path) -> None:
    fake.say("JobState=FAILED Reason=NonZeroExitCode ExitCode=127:0")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "daskevo-1.err").write_text("python3: No module named daskevo\n")
    with cluster_of(tmp_path) as cluster, pytest.raises(BatchSystemError) as caught:
        wait_for_workers(cluster)
    message = str(caught.value)
    assert "job 1 ended before a trainer of it came: FAILED (NonZeroExitCode), exit code 127:0" in message
    assert "No module named daskevo" in message


def test_jobs_that_end_at_once_are_said_and_given_up(
    fake: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where nobody waits for them, as in an adaptive cluster."""
    monkeypatch.setattr(jobs, "LOOK_AFTER_S", (0.05,))
    monkeypatch.setattr(jobs, "UNHEARD_S", 0.0)
    with cluster_of(tmp_path, jobs=0) as cluster:
        cluster.adapt(minimum_jobs=1, maximum_jobs=2, interval=None)
        cluster.scale(jobs=1)
        wait_until(lambda: (fake.folder / "job-1" / "script").exists())
        assert not caplog.records or "ended before" not in caplog.text
        fake.say("JobState=FAILED Reason=NonZeroExitCode ExitCode=127:0")
        wait_until(lambda: "job 1 ended before a worker of it came: FAILED (NonZeroExitCode)" in caplog.text)
        wait_until(lambda: "3 times in a row: it is not submitted again. job 3 ended before" in caplog.text)
        assert not cluster.worker_spec
        assert not (fake.folder / "job-4").exists()
        wait_until(lambda: not cluster._watched)
        assert not cluster._job_workers, "nothing is kept of jobs that are over"


def test_a_job_that_runs_and_can_not_reach_the_scheduler(fake: FakeSlurm, tmp_path: Path) -> None:
    fake.say("JobState=RUNNING Reason=None")
    with cluster_of(tmp_path) as cluster, pytest.raises(BatchSystemError) as caught:
        wait_for_workers(cluster, arrive_timeout_s=1.0)
    message = str(caught.value)
    assert (
        f"job 1 has run for 1 s and no trainer of it has come to the scheduler at {cluster.scheduler_address}"
        in message
    )
    assert "interface in dask-jobqueue's YAML" in message
    assert f"It has written nothing yet into {tmp_path / 'logs'}" in message


def test_a_job_that_waits_again_has_not_run(fake: FakeSlurm, tmp_path: Path) -> None:
    """It was requeued, or the batch system did not answer once while it waited."""
    reports = [JobReport("unknown"), *[JobReport("waiting", "PENDING")] * 20]
    asked: list[JobReport] = []

    def ask(kind: str, job_id: str) -> JobReport:
        asked.append(reports[len(asked)] if len(asked) < len(reports) else JobReport("running", "RUNNING"))
        if len(asked) == len(reports):
            time.sleep(1.1)  # longer than it may run without a worker
        return asked[-1]

    with cluster_of(tmp_path) as cluster, pytest.raises(BatchSystemError, match="job 1 has run for 1 s"):
        wait_for_workers(cluster, arrive_timeout_s=1.0, ask=ask)
    assert len(asked) > len(reports) + 1, "it was taken to have run since it was asked for first"


def test_the_log_of_another_job_is_not_quoted(tmp_path: Path) -> None:
    cluster = SimpleNamespace(log_directory=tmp_path)
    (tmp_path / "daskevo-12.err").write_text("of job 12")
    assert "written nothing" in last_words(cluster, "1")
    (tmp_path / "daskevo-1.err").write_text("of job 1\n")
    assert last_words(cluster, "1.pbs").endswith("daskevo-1.err:\n  of job 1")


def test_jobs_of_providers_have_options_of_their_own(fake: FakeSlurm, tmp_path: Path) -> None:
    apart = {"provider_jobs": 2, "provider_options": {"queue": "cpu", "cores": 2, "memory": "64GiB"}}
    with cluster_of(tmp_path, trainers_per_job=4, queue="gpu", **apart) as cluster:
        wait_until(lambda: len([job for job in list(cluster.workers.values()) if job.job_id is not None]) == 3)
        with pytest.raises(BatchSystemError, match="no trainer came within 1 s"):
            wait_for_workers(cluster, start_timeout_s=1.0)
    scripts = [path.read_text() for path in fake.folder.glob("job-*/script")]
    of_providers = [text for text in scripts if "--trainers 0 --providers 1" in text]
    (of_trainers,) = (text for text in scripts if "--trainers 4 --providers 0" in text)
    assert len(of_providers) == 2
    assert "#SBATCH -p gpu" in of_trainers
    for text in of_providers:
        assert "#SBATCH -p cpu" in text
        assert "--memory-limit 64.00GiB" in text
