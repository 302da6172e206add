"""A Slurm of its own: munged, slurmctld and three nodes of eight cores each, all on this machine.

It needs neither systemd nor cgroups, and has a folder and ports of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue", "scontrol")
NODES = 3
KILL_WAIT_S = 30
"""Seconds after its word that Slurm kills what is left of a job."""
CONFIGURATION = """\
ClusterName=daskevo
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
KillWait={kill_wait_s}
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
MailProg=/bin/true
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=8 RealMemory=20000
PartitionName=main Nodes=n[1-{nodes}] Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=n[1-{nodes}] MaxTime=1 State=UP
PartitionName=closed Nodes=n[1-{nodes}] State=DRAIN
"""


class Slurm:
    """A running Slurm."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def run(self, *words: str) -> str:
        """Run one of Slurm's commands; return what it says."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout.strip()

    def jobs(self, *states: str) -> list[str]:
        """Return the numbers of the jobs in these states, or of all that wait or run."""
        chosen = ("--states", ",".join(states)) if states else ()
        return self.run("squeue", "--noheader", "--format=%i", *chosen).split()

    def state(self, job: str) -> str:
        """Return the state of a job, such as ``RUNNING``."""
        words = self.run("scontrol", "--oneliner", "show", "job", job).split()
        return next(word.partition("=")[2] for word in words if word.startswith("JobState="))


def free_ports(count: int, number: int) -> int:
    """Return the first of so many ports in a row that nobody listens on, below those that the system gives away.

    Parameters
    ----------
    number:
        Of this process. Each has ports of its own: Slurm listens on them only some time after they were looked at, and
        tests run in several processes at once.
    """
    blocks = range(20_000, 32_000, count)
    for attempt in range(len(blocks)):
        first = blocks[(number + 101 * attempt) % len(blocks)]
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise RuntimeError("no ports are free")


def start(words: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Slurm]:
    """Yield a Slurm with nothing in its queue, whose files lie in a folder."""
    found = Slurm(folder)
    first = free_ports(NODES + 1, os.getpid())
    text = CONFIGURATION.format(
        host=socket.gethostname().partition(".")[0],
        folder=folder,
        port=first,
        first=first + 1,
        last=first + NODES,
        nodes=NODES,
        kill_wait_s=KILL_WAIT_S,
    )
    (folder / "slurm.conf").write_text(text)
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    folder.chmod(0o755)
    daemons = []
    try:
        files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        daemons.append(
            start(["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *files], found.environment)
        )
        _wait(lambda: (folder / "munge.socket").exists(), "munged", folder)
        daemons.append(start(["slurmctld", "-D"], found.environment))
        daemons += [start(["slurmd", "-D", "-N", f"n{number + 1}"], found.environment) for number in range(NODES)]
        _wait(lambda: _idle(found) == NODES, "nodes", folder)
        yield found
    finally:
        _end(found, daemons)


def _idle(slurm: Slurm) -> int:
    done = subprocess.run(
        ["sinfo", "--noheader", "--partition=main", "--states=idle", "--format=%D"],
        env=slurm.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return sum(int(word) for word in done.stdout.split())


def _wait(condition: Any, what: str, folder: Path) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        logs = {path.name: path.read_text()[-500:] for path in folder.glob("*.log")}
        assert time.monotonic() < deadline, f"{what} did not come: {logs}"
        time.sleep(0.1)


def _end(slurm: Slurm, daemons: list[subprocess.Popen[bytes]]) -> None:
    if len(daemons) > 1:
        subprocess.run(["scancel", "--user=root"], env=slurm.environment, capture_output=True, timeout=60, check=False)
        deadline = time.monotonic() + 2 * KILL_WAIT_S
        while time.monotonic() < deadline and slurm.jobs():
            time.sleep(0.2)
    for daemon in reversed(daemons):
        daemon.send_signal(signal.SIGTERM)
    for daemon in reversed(daemons):
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
