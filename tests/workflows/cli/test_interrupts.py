"""Ctrl-C while a cluster starts, and one that Python loses."""

from __future__ import annotations

import contextlib
import gc
import inspect
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import psutil
import pytest
from click.testing import CliRunner
from distributed import worker

from daskevo.errors import SchedulerUnreachable
from daskevo_workflows.cli import interrupts as interrupts_module
from daskevo_workflows.cli import main
from daskevo_workflows.cli.group import Commands
from daskevo_workflows.cli.interrupts import AGAIN_S, TOGETHER_S, heard, put_off
from daskevo_workflows.cli.worker_signals import is_news


def _press(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.001)


class Awkward:
    """Interrupts its own end, where Python drops what the handler raises."""

    def __del__(self) -> None:
        _press()


class Failing:
    def __del__(self) -> None:
        raise ValueError("dropped, and told to a hook")


def _do_both(drop: Callable[[], object], then: Callable[[], object]) -> None:
    """What was dropped comes again after a while, whatever is done then."""
    drop()
    then()


def _collect() -> None:
    """Interrupt the collector's callback, before it collects and after that."""
    gc.callbacks.append(_press)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(_press)


@pytest.mark.parametrize(
    ("drop", "told"),
    [
        pytest.param(Awkward, [], id="destructor"),
        pytest.param(_collect, [], id="collector", marks=pytest.mark.long),
        pytest.param(Failing, ["dropped, and told to a hook"], id="hook"),
        pytest.param(lambda: [Awkward() for _ in range(300)], [], id="one after another", marks=pytest.mark.long),
    ],
)
def test_an_interrupt_that_python_loses_comes_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], drop: Callable[[], object], told: list[str]
) -> None:
    """Nothing is printed of it, and who waits for something else is woken."""
    heard_of = []

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        heard_of.append(str(unraisable.exc_value))
        _press()

    gc.collect()  # what earlier tests left, and what that raises
    monkeypatch.setattr(sys, "unraisablehook", hook)
    before = signal.getsignal(signal.SIGINT)
    with heard(signal.SIGINT) as interrupts:
        interrupts.check()
        with pytest.raises(KeyboardInterrupt):
            _do_both(drop, lambda: threading.Event().wait(60))
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
    assert heard_of == told
    assert "Exception" not in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before


def test_one_that_was_heard_in_time_does_not_come_again() -> None:
    with heard(signal.SIGINT) as interrupts:
        with pytest.raises(KeyboardInterrupt):
            _do_both(Awkward, interrupts.check)
        time.sleep(5 * AGAIN_S)


class Blocking:
    """Is interrupted at its end, and holds back what comes again."""

    def __del__(self) -> None:
        try:
            _press()
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def test_nor_does_one_that_was_heard_while_it_was_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long ago it was pressed: it is no second one."""
    monkeypatch.setattr(interrupts_module, "TOGETHER_S", 0.0)
    with heard(signal.SIGINT) as interrupts:
        try:
            Blocking()
            while signal.SIGINT not in signal.sigpending():
                time.sleep(0.001)
            with pytest.raises(KeyboardInterrupt):
                interrupts.check()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        assert interrupts.presses.count == 1


PRESSED = """
import sys, time
import click
from daskevo_workflows.cli import interrupts
from daskevo_workflows.cli.group import Commands

interrupts.TOGETHER_S = float(sys.argv.pop())

@click.group(cls=Commands)
def group(): ...

@group.command()
@click.argument("rests_s", type=float, nargs=-1)
def work(rests_s):
    try:
        rest("works", 60)
    finally:
        try:
            rest("ends", rests_s[0])
        finally:
            rest("tidied up", rests_s[1])

def rest(word, seconds):
    print(word, flush=True)
    time.sleep(seconds)

group()
"""


@contextlib.contextmanager
def _pressed(*rests_s: float, together_s: float) -> Iterator[subprocess.Popen[str]]:
    """Start work that rests so long at its end and once it is tidied up, and press when it has begun."""
    command = [sys.executable, "-c", PRESSED, "work", *map(str, rests_s), str(together_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "works\n"
        process.send_signal(signal.SIGINT)
        yield process
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert "Exception" not in told


def _says(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{word}\n"


def test_presses_within_a_moment_are_one() -> None:
    with _pressed(1.0, 0.0, together_s=600.0) as process:
        for _ in range(6):
            time.sleep(0.05)
            process.send_signal(signal.SIGINT)
        _says(process, "ends")
        _says(process, "tidied up")


def test_a_press_after_a_moment_breaks_off_the_end_and_another_the_rest() -> None:
    with _pressed(600.0, 600.0, together_s=0.0) as process:
        for word in ("ends", "tidied up"):
            _says(process, word)
            process.send_signal(signal.SIGINT)


@pytest.mark.parametrize("together_s", [0.0, TOGETHER_S], ids=["each by itself", "together"])
def test_presses_while_it_ends(together_s: float) -> None:
    with _pressed(0.0, 0.0, together_s=together_s) as process:
        _says(process, "ends")
        _says(process, "tidied up")
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.002)


def test_a_press_when_all_is_over_leaves_no_traceback() -> None:
    """Just before the moment from which on a press ends the process at once."""
    code = """
import os, signal
import click
from daskevo_workflows.cli.group import Commands
from daskevo_workflows.cli.interrupts import Interrupts

leave = Interrupts.leave

def pressed(interrupts, code):
    Interrupts.leave = leave
    os.kill(os.getpid(), signal.SIGINT)

Interrupts.leave = pressed

@click.group(cls=Commands)
def group(): ...

@group.command()
def work(): ...

group(["work"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_is_left_at_once_is_tidied_up_without_a_word() -> None:
    code = """
import multiprocessing, os, sys
from daskevo_workflows.cli.interrupts import put_off
with put_off():
    kept = multiprocessing.get_context("spawn").Semaphore()
assert not sys.warnoptions
os._exit(130)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")


def test_what_an_interrupt_has_broken_off_is_no_error() -> None:
    @click.group(cls=Commands)
    def group() -> None: ...

    @group.command()
    def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            raise SchedulerUnreachable("it was closed")

    result = CliRunner().invoke(group, ["work"])
    assert (result.exit_code, result.stderr) == (130, "Interrupted.\n")


def test_what_was_broken_off_fails_to_close_without_a_word() -> None:
    """As a cluster does that was being started, at the end of Python; after any other end it is said."""
    code = (
        "import atexit, sys\nfrom daskevo_workflows.cli import main\natexit.register(lambda: 1 / 0)\n"
        "@main.command()\ndef stop():\n    raise {}\nmain(['stop'])\n"
    )
    told = {}
    for how in ("KeyboardInterrupt", "SystemExit(3)"):
        command = [sys.executable, "-c", code.format(how)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        told[ended.returncode] = ended.stderr
    assert told.keys() == {130, 3}
    assert told[130] == "Interrupted.\n"
    assert "ZeroDivisionError" in told[3]


def test_what_is_broken_off_on_purpose_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    """Dask's calls, which an interrupt breaks off, and callbacks of its event loop, which find nothing left."""
    log = logging.getLogger("tornado.application")
    with heard(signal.SIGINT):
        log.error("before")
        with pytest.raises(KeyboardInterrupt):
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        log.error("Exception in callback")
        log.critical("out of disk")
    log.error("after")
    assert caplog.messages == ["before", "out of disk", "after"]


def test_a_heartbeat_without_a_scheduler_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    """A worker logs it with a traceback when the command has just ended its cluster; all else is heard."""
    words = "Failed to communicate with scheduler during heartbeat."
    assert f'logger.exception("{words}")' in inspect.getsource(worker.Worker.heartbeat)

    def heartbeat() -> None:  # as Dask's own method is called
        try:
            os.stat("/no/such/scheduler")
        except OSError:
            worker.logger.exception(words)

    worker.logger.addFilter(is_news)
    try:
        heartbeat()
        worker.logger.error("Compute failed")
    finally:
        worker.logger.removeFilter(is_news)
    assert caplog.messages == ["Compute failed"]


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with heard(signal.SIGHUP) as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            interrupts.check()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_interrupt_is_put_off_and_not_lost() -> None:
    passed = []

    def work() -> None:
        with put_off():
            # To this thread: others that earlier tests left behind would take one that is sent to the process.
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            time.sleep(0.01)
            passed.append("inside")
        passed.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert passed == ["inside"]


STARTED = """
import time
from daskevo_workflows.evaluation import quiet_import
from daskevo_workflows.cli import interrupts, main

# However long it takes until it is pressed, the run has not begun; however far apart, the presses are one.
quiet_import.import_keras = lambda: time.sleep(600)
interrupts.TOGETHER_S = 600.0
if __name__ == "__main__":
    main(prog_name="daskevo")
"""


def test_ctrl_c_while_the_cluster_starts(tmp_path: Path) -> None:
    """A terminal sends it to every process: none prints a traceback, and the exit code is 130."""
    command = [sys.executable, "-c", STARTED, "nas", "digits", "--run", str(tmp_path / "run")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        while not _has_workers(process.pid) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.2)  # into their imports, where an interrupt leaves a traceback
        for _ in range(3):
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.06)
        _, told = process.communicate(timeout=300)
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert "daskevo nas digits" in told
    # The run has no record yet: nothing is promised of its evaluations.
    assert "before the run had begun" in told
    assert "kept;" not in told


def _has_workers(pid: int) -> bool:
    try:
        return any("spawn_main" in " ".join(child.cmdline()) for child in psutil.Process(pid).children())
    except psutil.Error:
        return False


@pytest.mark.parametrize(
    ("recorded", "said"), [(True, "Every finished evaluation is kept"), (False, "nothing to keep")]
)
def test_only_a_run_that_has_begun_is_said_to_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool, said: str
) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["daskevo_workflows.cli.nas"], "_search", interrupted)
    if recorded:
        (tmp_path / "run.json").write_text("{}")
    result = CliRunner().invoke(main, ["nas", "wnie.py", "--run", str(tmp_path)])
    assert result.exit_code == 130
    assert said in result.stderr
    assert f"evo nas wnie.py --run {tmp_path}" in result.stderr


@pytest.mark.parametrize("recorded", [True, False])
def test_a_run_whose_scheduler_dies_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    def died(*_: object) -> str:
        raise SchedulerUnreachable("the scheduler does not answer any more")

    monkeypatch.setattr(sys.modules["daskevo_workflows.cli.nas"], "_search", died)
    if recorded:
        (tmp_path / "run.json").write_text("{}")
    result = CliRunner().invoke(main, ["nas", "wnie.py", "--run", str(tmp_path), "--scheduler", "tcp://1.2.3.4:5"])
    assert result.exit_code == 2
    said = result.stderr.splitlines()
    assert said[0] == "Error: SchedulerUnreachable: the scheduler does not answer any more"
    if recorded:
        assert "Every finished evaluation is kept; once the cluster is there" in said[1]
        assert said[2].endswith(f"evo nas wnie.py --run {tmp_path} --scheduler tcp://1.2.3.4:5")
    else:
        assert len(said) == 1
