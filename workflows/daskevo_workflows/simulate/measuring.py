"""Measures the costs of a search on this machine: a short real search, then its parts one by one.

What runs in the same process as the scheduler is told apart by threads: the main thread is the search's, all others are
the scheduler's, and the client's connection to it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import daskevo
from daskevo.deploy.worker_list import workers_of
from daskevo.errors import InvalidInput
from daskevo.runs import RunRecord
from daskevo.search import AgedEvolution, Report, Request
from daskevo.types import Objective, VertexId
from daskevo_workflows import nas
from daskevo_workflows.execution.dry_run import run_dry
from daskevo_workflows.measurements.machine import machine_line
from daskevo_workflows.problems.building import graph_of, space_of
from daskevo_workflows.problems.protocol import Problem
from daskevo_workflows.simulate.cluster import heartbeats_per_s
from daskevo_workflows.simulate.costs import PHASES, MeasuredCosts, Phase, figures
from daskevo_workflows.simulate.fitting import fitted, prepared_s

REDIS_S, REDIS_MODELS = 1.15, 60_000
H5_BYTES, H5_PUT_S, H5_READ_S = 419.8e6, 0.505, 0.640
BENCHMARKS = "docs/benchmarks.md: {}"
TIMES, TASKS, QUERIES, LABELS, IDLE_S = 20, 150, 200, 60, 4.0
BATCH, MORE = 50, 6
FILE_BYTES = 1 << 26


def measure(
    problem: Problem,
    folder: str | Path,
    *,
    evaluations: int = 24,
    trainers: int = 2,
    say: Callable[[str], None] = print,
) -> MeasuredCosts:
    """Measure the costs of a problem's search on this machine, on a cluster of one provider.

    Parameters
    ----------
    folder:
        Where the run and its repository are; it must be new.
    evaluations, trainers:
        Of the search from which evaluations are fitted.
    say:
        Takes one line about what is measured now.

    Raises
    ------
    InvalidInput
        If the folder is there, or can't be made.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise InvalidInput(
            f"{folder} can't be made for the run that is measured ({error.strerror}): name a folder that is new",
            path=str(folder),
        ) from error
    say("candidates, strategy, record, files")
    found: dict[str, float] = {
        "graph_s": _graph_s(problem),
        "strategy_s": _strategy_s(problem),
        "commit_s": _commit_s(folder / "record"),
        "bytes_per_s": _bytes_per_s(folder / "file"),
    }
    with (
        daskevo.local_cluster(trainers=trainers, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        client.wait_for_workers(trainers + 1)
        repository = daskevo.open(
            folder / "repository", "simulation", client=client, objective=str(nas_objective(problem))
        )
        say(f"a search of {evaluations} evaluations")
        # Processes load and compile at first what they need: not what an evaluation costs, but once each trainer.
        before = nas.search(problem, repository=repository, evaluations=3 * trainers, run=folder / "before", seed=2)
        repository.best_match([graph_of(problem, space_of(problem).sample(np.random.default_rng(0)))])
        provider_s = _cpu(client)
        result = nas.search(
            problem,
            AgedEvolution(population=10, sample=3),
            repository=repository,
            evaluations=evaluations,
            run=folder / "run",
            seed=1,
        )
        provider_s = _cpu(client) - provider_s
        say("tasks, heartbeats, queries, labels")
        found["heartbeat_s"], idle, provider_idle = _heartbeat_s(client, cluster, trainers)
        provider_s = max(0.0, provider_s - provider_idle * result.runtime_s) / evaluations
        found |= _on_the_cluster(
            client, repository, problem, [report.model_id for report in result.reports], trainers, idle
        )
    # Of the provider's work for an evaluation, what is neither its query nor one of three other messages.
    found["put_message_s"] = max(found["message_s"], provider_s - found["query_s"] - 3 * found["message_s"])
    found |= {
        "scan_s": REDIS_S / REDIS_MODELS,
        "copy_bytes_per_s": H5_BYTES / H5_PUT_S,
        "load_bytes_per_s": H5_BYTES / H5_READ_S,
        **dict.fromkeys(("prepare_s", "inherit_s", "compile_s", "put_s"), 0.0),
    }
    phases = dict.fromkeys(PHASES, Phase(0.0))
    costs = MeasuredCosts(machine_line(["distributed", "keras", "tensorflow"]), _SOURCES, steps=0, **phases, **found)  # type: ignore[arg-type]
    source = f"a search of {problem.name}, {evaluations} evaluations, {trainers} trainers"
    first = f"a search of {problem.name} by trainers that had just begun, the first evaluation of each"
    return fitted(costs, list(result.reports), source).but(first, prepare_s=prepared_s(before.reports))


def nas_objective(problem: Problem) -> Objective:
    """Return a problem's first objective."""
    return Objective.parse(problem.objective)


def _seconds(action: Callable[[], Any], times: int = TIMES, clock: Callable[[], float] = time.perf_counter) -> float:
    seconds = []
    for _ in range(times):
        since = clock()
        action()
        seconds.append(clock() - since)
    return _low(seconds)


def _low(seconds: Sequence[float]) -> float:
    """Return the first decile: other work on the machine only adds to what something takes."""
    return sorted(seconds)[len(seconds) // 10]


def _graph_s(problem: Problem) -> float:
    space, rng = space_of(problem), np.random.default_rng(0)
    graph_of(problem, space.sample(rng))
    return _seconds(lambda: graph_of(problem, space.sample(rng)), clock=time.thread_time)


def _strategy_s(problem: Problem, count: int = 300) -> float:
    objective = nas_objective(problem)

    def evaluate(request: Request) -> Report:
        value = float(np.random.default_rng(request.number).random())
        return Report(request.number, request.model_id, "finished", quality=value, metrics={objective.metric: value})

    since = time.thread_time()
    run = run_dry(
        AgedEvolution(),
        space_of(problem),
        [objective],
        count,
        1,
        architecture=lambda request: [VertexId(request.number.to_bytes(16))],
        evaluate=evaluate,
    )
    return (time.thread_time() - since) / len(run.requests)


def _commit_s(folder: Path) -> float:
    record = RunRecord(folder, {"problem": "simulation"})
    try:
        return _seconds(lambda: record.event("measured", "a transaction"))
    finally:
        record.close()


def _bytes_per_s(path: Path) -> float:
    data = np.ones(FILE_BYTES, np.uint8)

    def write() -> None:
        path.write_bytes(data.data)
        path.unlink()

    return FILE_BYTES / _seconds(write, 5)


def _cpu(client: Any) -> float:
    """Return the seconds of all threads of the provider until now."""
    names = {worker["name"]: address for address, worker in workers_of(client).items()}
    address = names["provider-0"]
    return float(client.run(time.process_time, workers=[address])[address])


def _heartbeat_s(client: Any, cluster: Any, trainers: int) -> tuple[float, float, float]:
    """Return what a heartbeat takes of this process, by what idle workers add; idle shares of it and a provider."""

    def idle() -> float:
        since = time.process_time()
        time.sleep(IDLE_S)
        return (time.process_time() - since) / IDLE_S

    provider_s = _cpu(client)
    few = idle()
    provider_idle = (_cpu(client) - provider_s) / IDLE_S
    cluster.scale(trainers + MORE)
    client.wait_for_workers(trainers + 1 + MORE)
    time.sleep(IDLE_S)
    many = idle()
    cluster.scale(trainers)
    added = heartbeats_per_s(trainers + 1 + MORE) - heartbeats_per_s(trainers + 1)
    return max(0.0, many - few) / added, few, provider_idle


def _on_the_cluster(
    client: Any, repository: Any, problem: Problem, models: Any, trainers: int, idle: float
) -> dict[str, float]:
    found: dict[str, float] = {}
    workers = trainers + 1

    submitting, fetching = [], []
    wall, all_s, own_s = time.perf_counter(), time.process_time(), time.thread_time()
    for number in range(TASKS):
        began = time.thread_time()
        future = client.submit(_nothing, number, key=f"simulation-{number}", resources={"evaluation": 1}, pure=False)
        submitting.append(time.thread_time() - began)
        while not future.done():
            time.sleep(0.0005)
        began = time.perf_counter()
        future.result()
        fetching.append(time.perf_counter() - began)
    wall = time.perf_counter() - wall
    others_s = time.process_time() - all_s - (time.thread_time() - own_s)
    found["task_s"] = max(0.0, others_s - idle * wall) / TASKS
    found["submit_s"] = statistics.fmean(submitting)
    identity = _seconds(lambda: client.sync(client.scheduler.identity, n_workers=-1))
    nobody = _seconds(lambda: client.sync(client.scheduler.identity, n_workers=0))
    found["look_s"] = max(0.0, identity - nobody) / workers

    space, rng = space_of(problem), np.random.default_rng(3)
    graphs = [graph_of(problem, space.sample(rng)) for _ in range(10)]
    provider_s = _cpu(client)
    query_s, asker_s = client.submit(_ask, repository, graphs, 1, resources={"evaluation": 1}, pure=False).result()
    found["query_s"] = (_cpu(client) - provider_s) / QUERIES
    found["ask_provider_s"] = asker_s
    provider_s = _cpu(client)
    _, batched_s = client.submit(_ask, repository, graphs, BATCH, resources={"evaluation": 1}, pure=False).result()
    batch_s = (_cpu(client) - provider_s) / QUERIES
    found["question_s"] = max(0.0, batch_s - found["query_s"]) / (BATCH - 1)
    found["ask_question_s"] = max(0.0, batched_s - asker_s) / (BATCH - 1)
    found["latency_s"] = max(1e-5, query_s - found["query_s"] - asker_s) / 2
    found["fetch_s"] = max(0.0, _low(fetching) - 2 * found["latency_s"])

    living = [name for name in models if repository.status(name).state == "published"][:LABELS]
    provider_s, wall = _cpu(client), time.perf_counter()
    all_s, own_s = time.process_time(), time.thread_time()
    seconds = []
    for name in living:
        for change in (repository.hold, repository.release):
            began = time.perf_counter()
            change(name, "user:simulation")
            seconds.append(time.perf_counter() - began)
    wall = time.perf_counter() - wall
    others_s = time.process_time() - all_s - (time.thread_time() - own_s) - idle * wall
    found["label_s"] = (time.thread_time() - own_s) / len(seconds)
    found["message_s"] = (_cpu(client) - provider_s) / len(seconds)
    found["coordinator_s"] = max(0.0, others_s) / len(seconds)
    known = found["label_s"] + found["message_s"] + found["coordinator_s"] + 4 * found["latency_s"]
    found["flush_s"] = max(0.0, _low(seconds) - known)
    return found


def _nothing(number: int) -> int:
    return number


def _ask(repository: Any, graphs: Any, batch: int) -> tuple[float, float]:
    """In a task: ask for best matches; return the seconds of one message, and this process's own work for it."""
    repository.best_match(graphs[:1])
    own_s, seconds = time.process_time(), []
    for number in range(QUERIES):
        since = time.perf_counter()
        repository.best_match([graphs[(number + place) % len(graphs)] for place in range(batch)])
        seconds.append(time.perf_counter() - since)
    return _low(seconds), (time.process_time() - own_s) / QUERIES


_SOURCES = {
    **dict.fromkeys(figures(), "the search below"),
    "graph_s": f"processor time of a candidate's graph, first decile of {TIMES}",
    "strategy_s": "processor time of AgedEvolution, asked and told 300 times without a cluster",
    "commit_s": f"first decile of {TIMES} transactions of a run's record",
    "bytes_per_s": "a file of 64 MiB written (first decile of 5) to the folder of the repository",
    "heartbeat_s": f"what {MORE} more idle workers add to the scheduler's processor time, by heartbeat",
    "task_s": f"processor time of the scheduler's process over {TASKS} empty tasks, one at a time, idle time taken off",
    "submit_s": f"processor time of the main thread over {TASKS} calls of Client.submit",
    "fetch_s": f"first decile of {TASKS} calls of Future.result of tasks that had ended, without two latencies",
    "look_s": "Scheduler.identity with all workers, less that with none, by worker",
    "query_s": f"processor time of the provider over {QUERIES} queries, few models in its index",
    "ask_provider_s": f"processor time of the trainer over {QUERIES} queries of one provider",
    "question_s": f"processor time of the provider over {QUERIES} messages of {BATCH}, by further question",
    "ask_question_s": f"processor time of the trainer over {QUERIES} messages of {BATCH}, by further question",
    "latency_s": "half of what is left of a query's first decile without both, between processes of this machine",
    "label_s": "processor time of the main thread over label changes",
    "message_s": "processor time of the provider over label changes",
    "coordinator_s": "processor time of the scheduler's process over label changes: a tick, and the client's messages",
    "flush_s": "what is left of a label change's first decile",
    "put_message_s": "processor time of the provider over a search, by evaluation: less query, 3 messages, idle time",
    "scan_s": BENCHMARKS.format("Redis, values iterated, 1.15 s over 60,000 models"),
    "copy_bytes_per_s": BENCHMARKS.format(".weights.h5 of 419.8 MB put in 505 ms, on disk, one at a time"),
    "load_bytes_per_s": BENCHMARKS.format(".weights.h5 of 419.8 MB read in 640 ms, on disk, one at a time"),
}
