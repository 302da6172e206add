"""The cluster of a trial: scheduler, providers, trainers and the search, each on a host of its own where possible."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from daskevo.deploy.role_options import provider_options, trainer_options
from tests.chaos import ledger, problem
from tests.chaos.hosts import HUB, Hosts
from tests.chaos.parts import Parts

SEARCH, SCHEDULER = "search", "scheduler"
POPULATION, SAMPLE = 8, 3
PATIENCE_S = 60
"""Seconds that a worker waits for a scheduler."""
NOTHING: Mapping[str, str] = {}
OVER = frozenset({0, 1, 70})
"""Exit codes of a search that has ended for good: finished, too many failures, or an error that nobody foresaw."""


class Places(NamedTuple):
    """Where the things of a trial lie."""

    folder: Path
    root: Path

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.jsonl"

    @property
    def pace(self) -> Path:
        return self.folder / "pace"

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"


def workers(providers: int, trainers: int) -> list[str]:
    """Return the names of the workers; without providers the trainers are providers, too."""
    return [f"provider-{number}" for number in range(providers)] + [f"trainer-{number}" for number in range(trainers)]


def start_cluster(parts: Parts, places: Places, names: Sequence[str], hosts: Hosts | None) -> str:
    """Start scheduler and workers; return the scheduler's address."""
    host = HUB if hosts is not None else "127.0.0.1"
    address = start_scheduler(parts, SCHEDULER, host, 8786 if hosts is not None else _free_port(host))
    trainers = sum(name.startswith("trainer") for name in names)
    provide = trainers == len(names)
    environment = {ledger.LEDGER: str(places.ledger), problem.PACE: str(places.pace)}
    for name in names:
        scratch = places.folder / "scratch"
        start_worker(parts, address, name, scratch, hosts, environment, trainers=trainers, trainers_provide=provide)
    return address


def start_scheduler(
    parts: Parts, name: str, host: str, port: int, hosts: Hosts | None = None, environment: Mapping[str, str] = NOTHING
) -> str:
    """Start a scheduler (with `hosts`, on the host of its name); return its address."""
    words = _python(
        "from distributed.cli.dask_scheduler import main", "--host", host, "--port", str(port), "--no-dashboard"
    )
    parts.start(name, words if hosts is None else hosts.command(name, words), environment)
    return f"tcp://{host}:{port}"


def start_worker(
    parts: Parts,
    address: str,
    name: str,
    scratch: Path,
    hosts: Hosts | None,
    environment: Mapping[str, str],
    *,
    trainers: int = 1,
    trainers_provide: bool = False,
) -> None:
    """Start a provider or a trainer, by its name, on the host of that name where there are hosts."""
    trains = name.startswith("trainer")
    threads = max(1, (os.cpu_count() or 1) // max(1, trainers))
    role = trainer_options(threads, None, provides=trainers_provide) if trains else provider_options(4)
    resources = ",".join(f"{resource}={amount}" for resource, amount in role["resources"].items())
    words = _python(
        "from distributed.cli.dask_worker import main",
        *(address, "--name", name, "--no-dashboard", "--death-timeout", str(PATIENCE_S)),
        *("--host", "127.0.0.1" if hosts is None else hosts.addresses[name]),
        *("--nthreads", str(role["nthreads"]), "--resources", resources),
        *("--local-directory", str(scratch / name)),
        *(("--preload", ledger.__name__) if ledger.LEDGER in environment and trains else ()),
    )
    parts.start(name, words if hosts is None else hosts.command(name, words), {**role["env"], **environment})


STRATEGIES: Mapping[str, Sequence[str]] = {
    "evolution": ("--population", str(POPULATION), "--sample", str(SAMPLE)),
    "asha": ("--strategy", "asha", "--steps", "4", "--eta", "2"),
}
"""Strategy of the search -> its options."""


def start_search(parts: Parts, places: Places, address: str, evaluations: int, seed: int, strategy: str) -> None:
    """Start the search, and the same command again whenever it is killed."""
    words = _python(
        "from daskevo_workflows.cli import main",
        *("nas", str(Path(problem.__file__)), "--scheduler", address),
        *("--evaluations", str(evaluations), "--seed", str(seed), "--run", str(places.run)),
        *("--repository", str(places.root), "--scope", problem.name),
        # Frozen at once: after evaluations this short nothing would be shared otherwise.
        *("--freeze", "prefix", *STRATEGIES[strategy]),
    )
    parts.start(SEARCH, words, {"CUDA_VISIBLE_DEVICES": "-1"}, OVER)


def _python(imported: str, *arguments: str) -> list[str]:
    # As a program, so that the module is not imported twice: as itself and as __main__.
    return [sys.executable, "-c", f"{imported}\nif __name__ == '__main__': main()", *arguments]


def _free_port(host: str) -> int:
    with socket.socket() as found:
        found.bind((host, 0))
        return int(found.getsockname()[1])
