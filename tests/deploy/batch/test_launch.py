"""The scripts of jobs as they are submitted, and what can be refused before anything is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
import yaml

import daskevo
from daskevo.deploy import configuration
from daskevo.deploy.batch import carried_configuration
from daskevo.deploy.batch.jobqueue_import import jobqueue
from daskevo.deploy.batch.launch import CLASSES, batch_cluster
from daskevo.errors import BatchSystemError, InvalidInput

SCRIPTS = Path(__file__).parent / "scripts"
POLARIS = {
    "queue": "prod",
    "account": "PROJECT",
    "resource_spec": "select=1:system=polaris",
    "walltime": "06:00:00",
    "job_extra_directives": ["-l filesystems=home:eagle", "-l place=scatter"],
    "job_script_prologue": ["module use /soft/modulefiles", "module load conda"],
}


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing that this machine's users have configured counts."""
    monkeypatch.chdir(tmp_path)
    defaults = yaml.safe_load((Path(jobqueue().__file__).parent / "jobqueue.yaml").read_text())
    # Nor what the tests have: a script carries what differs from the files.
    with dask.config.set({"jobqueue": defaults["jobqueue"], "daskevo": configuration.defaults()["daskevo"]}):
        yield


def script(kind: str, **options: Any) -> str:
    common = {"cores": 8, "memory": "64GiB", "walltime": "02:00:00", "python": "python", "log_directory": "logs"}
    given = {**common, **options, "scheduler_options": {"host": "127.0.0.1"}}
    with batch_cluster(kind, **given) as cluster:
        text = str(cluster.job_script())
    return re.sub(r"tcp://127\.0\.0\.1:\d+", "tcp://SCHEDULER", text).replace(str(Path.cwd()), "WHERE")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("slurm", {"trainers_per_job": 4, "gpus_per_trainer": 1, "job_extra_directives": ["--gres=gpu:4"]}),
        ("pbs", {"trainers_per_job": 4, "provider_threads": 8, **POLARIS}),
        ("lsf", {"trainers_per_job": 2, "walltime": "02:00", "use_stdin": True}),
    ],
)
def test_scripts(kind: str, options: dict[str, Any]) -> None:
    assert script(kind, **options) == (SCRIPTS / f"{kind}.sh").read_text()


def test_workers_leave_before_the_walltime() -> None:
    for walltime, lifetime, stagger in (("02:00:00", 6900, 300), ("00:30:00", 1620, 180), ("00:01:00", 45, 11)):
        words = script("slurm", walltime=walltime).split()
        assert words[words.index("--lifetime") + 1] == f"{lifetime}s"
        assert words[words.index("--lifetime-stagger") + 1] == f"{stagger}s"
    assert "--lifetime 7140s" in script("slurm", lifetime_margin="1 minute")
    assert script("slurm", worker_extra_args=["--lifetime", "5m"]).count("--lifetime") == 1
    with dask.config.set({"daskevo.batch.lifetime-margin": "10 minutes"}):
        assert "--lifetime 6600s" in script("slurm")


def test_what_is_configured() -> None:
    batch = {"trainers-per-job": 3, "providers-per-job": 2, "provider-threads": 5, "gpus-per-trainer": 2}
    with dask.config.set({"daskevo.batch": batch, "jobqueue.slurm.processes": 7}):
        words = script("slurm")
        assert "--trainers 3 --providers 2 --gpus-per-trainer 2" in words
        assert "--provider-threads 5 " in words
        assert "--trainers 1 --providers 0" in script("slurm", trainers_per_job=1, providers_per_job=0, provider_jobs=1)
    with dask.config.set({"jobqueue.slurm.processes": 7}):
        assert "--trainers 7 --providers 1" in script("slurm")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trainers_per_job": 0}, "at least one trainer"),
        ({"providers_per_job": 0}, "there would be no provider"),
        ({"provider_jobs": -1}, "none of these is negative"),
        ({"walltime": "two hours"}, "hours:minutes:seconds"),
        ({"lifetime_margin": "3 hours"}, "leaves nothing of a walltime"),
        ({"processors": 8}, "processors"),
        ({"cores": None}, "jobqueue.slurm.cores is not set"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        script("slurm", **options)


@pytest.mark.parametrize(
    ("kind", "where", "key"),
    [
        ("slurm", {}, "the argument interface names it"),
        ("pbs", {"jobqueue.pbs.interface": "nowhere0"}, r"jobqueue\.pbs\.interface in Dask's configuration names it"),
        ("slurm", {"jobqueue.mine": {"interface": "nowhere0"}}, r"jobqueue\.mine\.interface in"),
        ("slurm", {"jobqueue.slurm.scheduler-options": {"interface": "nowhere0"}}, r"slurm\.scheduler-options \(or in"),
    ],
)
def test_a_network_that_is_not_there(kind: str, where: dict[str, Any], key: str) -> None:
    given = {} if where else {"interface": "nowhere0"}
    if "jobqueue.mine" in where:
        given["config_name"] = "mine"
    with dask.config.set(where), pytest.raises(BatchSystemError, match=key) as caught:
        batch_cluster(kind, cores=1, memory="1GiB", log_directory="logs", **given)
    words = str(caught.value)
    assert "'nowhere0' is not a valid network interface of this host" in words
    assert "lo (127.0.0.1)" in words
    assert not Path("logs").exists()


def test_what_a_job_has_must_be_known() -> None:
    with pytest.raises(InvalidInput, match=r"^jobqueue.slurm.cores and jobqueue.slurm.memory are not set.*slurm.yaml"):
        batch_cluster("slurm")
    with dask.config.set({"jobqueue.pbs.cores": 8}), pytest.raises(InvalidInput, match=r"^jobqueue.pbs.memory is not"):
        batch_cluster("pbs")


def test_batch_systems_that_are_none() -> None:
    with pytest.raises(InvalidInput, match="'cron': use one of slurm, pbs"):
        batch_cluster("cron")


def test_without_dask_jobqueue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with pytest.raises(BatchSystemError, match="pip install dask-jobqueue"):
        daskevo.batch_cluster("slurm")


def test_all_classes_are_there() -> None:
    assert all(hasattr(jobqueue(), name) for name in CLASSES.values())


@pytest.mark.parametrize("interrupt", ["signal.SIG_DFL", "signal.default_int_handler"])
def test_ctrl_c_stays_what_it_was(interrupt: str) -> None:
    code = f"""
import signal
signal.signal(signal.SIGINT, {interrupt})
from daskevo.deploy.batch import carried_configuration
from daskevo.deploy.batch.jobqueue_import import jobqueue
import dask
jobqueue()
assert signal.getsignal(signal.SIGINT) is {interrupt}
del dask.config.config["jobqueue"]
jobqueue()
assert dask.config.get("jobqueue.slurm.walltime") == "00:30:00"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_another_thread_cannot_import_it() -> None:
    code = """
import threading
from daskevo.deploy.batch import carried_configuration
from daskevo.deploy.batch.jobqueue_import import jobqueue
from daskevo.errors import BatchSystemError
def work():
    try:
        jobqueue()
    except BatchSystemError as error:
        print(error)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True)
    assert "import dask_jobqueue there first" in done.stdout


def carried_by(text: str) -> dict[str, Any]:
    (word,) = re.findall(rf"^export {carried_configuration.VARIABLE}=(\S+)$", text, re.MULTILINE)
    return dict(dask.config.deserialize(word))


def test_workers_have_what_is_set_when_their_job_is_submitted(caplog: pytest.LogCaptureFixture) -> None:
    options = {"cores": 8, "memory": "64GiB", "scheduler_options": {"host": "127.0.0.1"}}
    with batch_cluster("slurm", **options, job_script_prologue=["module load conda"]) as cluster:
        assert carried_configuration.VARIABLE not in cluster.job_script()
        with dask.config.set(
            {"daskevo.timeout": "2 minutes", "distributed.comm.timeouts.connect": "77s", "a": object()}
        ):
            text = cluster.job_script()
            assert "a in Dask's configuration" in caplog.text
        assert carried_configuration.VARIABLE not in cluster.job_script()
    assert carried_by(text) == {
        "daskevo": {"timeout": "2 minutes"},
        "distributed": {"comm": {"timeouts": {"connect": "77s"}}},
    }
    assert (
        text.index(carried_configuration.VARIABLE)
        < text.index("module load conda")
        < text.index("daskevo_workflows.cli node")
    )
    # As the node's process reads it, and its workers after it.
    word = re.findall(rf"{carried_configuration.VARIABLE}=(\S+)", text)[0]
    code = "import dask; print(*(dask.config.get(n) for n in ('daskevo.timeout', 'distributed.comm.timeouts.connect')))"
    environment = {
        **os.environ,
        carried_configuration.VARIABLE: word,
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "9s",
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "2 minutes 9s\n"


def test_what_a_job_got_from_the_job_before_is_not_carried_on(monkeypatch: pytest.MonkeyPatch) -> None:
    inherited = dask.config.serialize({"daskevo": {"timeout": "2 minutes"}})
    for name, value in dask.config.collect_env({carried_configuration.VARIABLE: inherited}).items():
        monkeypatch.setitem(dask.config.config, name, value)
    assert carried_configuration.VARIABLE.removeprefix("DASK_").lower() in dask.config.config
    assert carried_configuration.chosen_here() == {"daskevo": {"timeout": "2 minutes"}}


def test_lines_of_the_yaml_file_stay_in_the_script() -> None:
    with dask.config.set({"jobqueue.slurm.job-script-prologue": ["module load conda"], "daskevo.silent-after": "9s"}):
        text = script("slurm")
    assert "module load conda" in text
    assert carried_by(text) == {"daskevo": {"silent-after": "9s"}}


def test_a_maximum_below_one_job_is_refused_where_providers_have_jobs_of_their_own() -> None:
    options = {"cores": 8, "memory": "64GiB", "scheduler_options": {"host": "127.0.0.1"}, "trainers_per_job": 4}
    with batch_cluster("slurm", **options) as cluster:
        cluster._provider_jobs.add("providers-0")
        with pytest.raises(InvalidInput, match="ask for a maximum of 4 trainers, or 1 jobs, or more"):
            cluster.adapt(interval=None, maximum=2)


def test_limits_of_trainers_are_whole_jobs() -> None:
    options = {"cores": 8, "memory": "64GiB", "scheduler_options": {"host": "127.0.0.1"}, "trainers_per_job": 2}
    with batch_cluster("slurm", **options) as cluster:

        def limits(**given: Any) -> tuple[Any, Any]:
            adaptive = cluster.adapt(interval=None, **given)
            return adaptive.minimum, adaptive.maximum

        assert limits(minimum=1, maximum=5) == (2, 4)
        assert limits(minimum_jobs=1, maximum_jobs=3) == (2, 6)
        assert limits() == (2, float("inf"))
        for refused, said in (
            ({"maximum": 1}, "from 2 to 0 trainers in whole jobs of 2 are within the limits"),
            ({"minimum": 3, "maximum": 3}, "a maximum of 4 trainers, or 2 jobs, or more"),
            ({"minimum_jobs": 2, "maximum_jobs": 1}, "of jobs were asked for"),
            ({"minimum": -1}, "of trainers were asked for"),
            ({"minimum": 1, "minimum_jobs": 1}, "leave one of them out"),
        ):
            with pytest.raises(InvalidInput, match=said):
                limits(**refused)
