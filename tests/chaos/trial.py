"""A trial: start a cluster and a search, let faults happen, let it come to rest, recount."""

from __future__ import annotations

import itertools
import json
import logging
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from daskevo.errors import DaskevoError
from daskevo.index import PrefixIndex
from tests.chaos import ledger, problem
from tests.chaos.cluster import SEARCH, Places, start_cluster, start_search, workers
from tests.chaos.disk import Disk
from tests.chaos.faults import Faults
from tests.chaos.hosts import Hosts
from tests.chaos.pace import Pace
from tests.chaos.parts import Parts
from tests.chaos.recount import Recount, read_all, recount
from tests.chaos.schedule import schedule
from tests.chaos.storm import storm

OUTCOME = "outcome.json"
TICK_S = 0.2
SAY_EVERY_S = 10.0
DISK_BYTES = 256 << 20
REST_S = 120.0
"""What the cluster may take to come to rest after the search."""
PATIENCE_S = 600.0
"""What a search may take, beyond twice the time with faults."""


@dataclass(frozen=True)
class Trial:
    """What is asked for.

    Parameters
    ----------
    folder:
        Empty; everything of the trial goes there.
    minutes:
        How long faults happen, from the first finished evaluation on.
    seed:
        Of schedule and search.
    evaluations:
        The search's budget.
    providers, trainers:
        Workers; without providers the trainers are providers, too.
    every_s:
        Mean time between two faults.
    is_apart:
        Whether this process is in namespaces of its own, so that it may make hosts and disks.
    strategy:
        Of the search: a key of `tests.chaos.cluster.STRATEGIES`.
    """

    folder: str
    minutes: float
    seed: int
    evaluations: int
    providers: int
    trainers: int
    every_s: float
    is_apart: bool
    strategy: str = "evolution"


def run(trial: Trial, say: Callable[[str], None]) -> dict[str, Any]:
    """Carry a trial out; return what it found, by the keys of ``python -m tests.chaos --json`` and `words`."""
    folder = Path(trial.folder)
    seconds = trial.minutes * 60
    # A provider that had to compile it, killed again and again, would never get to the end of it.
    PrefixIndex().warm()
    names = workers(trial.providers, trial.trainers)
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts(names)) if trial.is_apart else None
        disk = Disk(folder / "disk", DISK_BYTES) if trial.is_apart else None
        places = Places(folder, folder / ("disk/repository" if trial.is_apart else "repository"))
        places.logs.mkdir()
        places.pace.write_text("0")
        parts = Parts(places.logs)
        stack.callback(parts.close)
        address = start_cluster(parts, places, names, hosts)
        start_search(parts, places, address, trial.evaluations, trial.seed, trial.strategy)
        faults = Faults(
            schedule(trial.seed, seconds, names, trial.every_s),
            parts,
            hosts,
            disk,
            lambda: storm(address, places.root, problem.name, places.ledger),
            say,
        )
        words = _search(trial, places, parts, faults, say)
        say("the search has ended; the cluster comes to rest")
        words += _rest(address, places, parts)
        parts.close()
        found = _recount(places)
        outcome = _outcome(trial, places, faults, found, words)
        if not outcome["clean"] and disk is not None:
            # It goes with the disk, and somebody will want to know.
            shutil.copytree(places.root, folder / "repository", symlinks=True)
        return outcome


def _search(trial: Trial, places: Places, parts: Parts, faults: Faults, say: Callable[[str], None]) -> list[str]:
    """Let faults happen until the search has ended; return what went wrong, in words."""
    seconds = trial.minutes * 60
    limit_s = 2 * seconds + PATIENCE_S
    began: float | None = None
    started = said = time.monotonic()
    pace = Pace(places.pace, trial.evaluations)
    while (code := parts.code(SEARCH)) is None:
        now = time.monotonic()
        if began is not None:
            faults.go_on(now - began)
        parts.mind()
        if now - said > SAY_EVERY_S or began is None:
            done = len(_finished(places.run))
            if done and began is None:
                began = now
                say("the first evaluation has finished; faults begin")
            elif now - said > SAY_EVERY_S:
                said = now
                say(f"{done} of {trial.evaluations} evaluations")
            pace.look(done, now, seconds - (now - (began or now)))
        if now - started > limit_s:
            faults.end()
            return [f"the search had not ended after {limit_s:.0f} s"]
        time.sleep(TICK_S)
    faults.end()
    return [] if code == 0 else [f"the search ended with exit code {code}, see {places.logs / SEARCH}.log"]


def _rest(address: str, places: Places, parts: Parts) -> list[str]:
    """Wait until a client finds nothing to do and reads each model as it was put; return what it finds at last."""
    from distributed import Client

    import daskevo

    until = time.monotonic() + REST_S
    words = ["nobody looked"]
    while words and time.monotonic() < until:
        parts.mind()
        try:
            with Client(address, timeout="10s", set_as_default=False) as client:
                repository = daskevo.open(places.root, problem.name, client=client)
                verified = repository.verify(repair=True)
                stats = repository.stats()
                words = verified.to_json()["differences"]
                words += [f"{stats[name]} {name}" for name in ("live_attempts", "unsettled") if stats[name]]
                words += read_all(repository, ledger.read(places.ledger))
        except (DaskevoError, OSError, TimeoutError, RuntimeError) as error:
            words = [f"{type(error).__name__}: {error}"]
        if words:
            time.sleep(1)
    return [f"at rest: {word}" for word in words]


def _recount(places: Places) -> Recount:
    import daskevo
    from daskevo_workflows.evaluation.training_part import state_name
    from daskevo_workflows.results.result import Result

    result = Result(places.run, daskevo.open(places.root, problem.name), ("", ""))
    kept = {*result.population(), *(found.model_id for found in result.best(5))}
    reported = {report.model_id for report in result.reports if report.status == "finished"}
    states = {state_name(name) for name in result.population()}
    return recount(places.root, problem.name, ledger.read(places.ledger), reported, kept, states)


def _outcome(trial: Trial, places: Places, faults: Faults, found: Recount, words: list[str]) -> dict[str, Any]:
    times = _finished(places.run)
    if len(times) != trial.evaluations:
        words.append(f"{len(times)} evaluations finished, {trial.evaluations} were asked for")
    return {
        "evaluations": len(times),
        "kills": faults.counts["kill"],
        "partitions": faults.counts["cut"],
        "published": found.published,
        "lost": found.lost,
        "dangling": found.dangling,
        "leaked_tensors": found.leaked_tensors,
        "leaked_bytes": found.leaked_bytes,
        "longest_pause_s": round(longest_pause_s(times), 3),
        "clean": found.clean and not words,
        "words": words + found.words,
    }


def _finished(run: Path) -> list[float]:
    """Return when evaluations finished, in seconds since the epoch."""
    from daskevo.errors import CorruptRecord, RunFolderUnusable
    from daskevo.runs import RunView

    try:
        with RunView(run) as view:
            # In this order: a report may come in between.
            finished = [report.number for report in view.reports() if report.status == "finished"]
            times = view.report_times()
            return [times[number] for number in finished]
    except (CorruptRecord, RunFolderUnusable, OSError):
        return []  # it is just being made


def longest_pause_s(times: list[float]) -> float:
    """Return the longest time without a finished evaluation, less the usual one (the median), in seconds.

    Examples
    --------
    >>> longest_pause_s([1.0, 2.0, 3.0, 9.0, 10.0])
    5.0
    """
    ordered = sorted(times)
    gaps = [later - earlier for earlier, later in itertools.pairwise(ordered)]
    return max(gaps) - statistics.median(gaps) if gaps else 0.0


def main() -> None:
    """Carry out the trial described by the first argument; the outcome goes to a file in its folder."""
    trial = Trial(**json.loads(sys.argv[1]))
    started = time.monotonic()
    # That its own clients lose the scheduler is no news here.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)

    def say(line: str) -> None:
        sys.stderr.write(f"{time.monotonic() - started:7.1f} s  {line}\n")

    outcome = run(trial, say)
    (Path(trial.folder) / OUTCOME).write_text(json.dumps(outcome))


def words_of(trial: Trial) -> str:
    """Return a trial as `main` takes it."""
    return json.dumps(asdict(trial))
