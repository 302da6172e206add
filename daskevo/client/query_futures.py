"""Best matches as Dask futures: one query task per provider, pinned to its worker by name, and one reduction task.

For large batches of candidates, which users can watch and cancel on the dashboard. The reduction is the one of direct
calls, so the answers are the same.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

from distributed import Client, Future, Reschedule, get_worker

from daskevo.client.best_match import Question, best_of, match_to_wire
from daskevo.client.connection import provider_plugin
from daskevo.client.directory import CALL_TIMEOUT_S
from daskevo.client.session import Session
from daskevo.deploy.roles import PROVIDER, start_line
from daskevo.errors import NoProvider, NotDeployed, ShardUnavailable
from daskevo.index import PrefixMatch
from daskevo.wire.dask_private import WORKER_ANY_RUNNING

TASK_PREFIX = "daskevo-"
"""Prefix of the keys of query tasks, by which the coordinator moves them to a provider that was restarted."""
QUERY_PRIORITY = 100
"""Queries run before evaluations that wait on the same worker."""
_PATIENCE_S = 10.0
"""Longest wait for a provider to open its shards, in seconds; then it answers with those that are open."""
_JOIN_S = 60.0
"""Longest wait for a provider to join the repository, in seconds."""
_PAUSE_S = 0.02


async def query_futures(
    client: Client, key: str, session: Session, scope: str, questions: Sequence[Question]
) -> Future:
    """Submit one query per provider and their reduction.

    Returns
    -------
    A future of a tuple with the best `PrefixMatch` of each question, or None.

    Raises
    ------
    NoProvider
        If no provider serves shards at the moment.
    """
    # The table has names as text. Dask's own may be numbers, and `workers=` finds a worker by its own name only.
    names = await session.transport.coordinator("worker_names", timeout_s=CALL_TIMEOUT_S)
    serving = await session.directory.providers()
    if not serving:
        await session.directory.refresh()
        serving = await session.directory.providers()
    providers = [worker for name, worker in names if name in serving]
    if not providers:
        raise NoProvider(
            "no provider serves shards at the moment, so nobody can be asked. If none comes back by itself, "
            + start_line(client.scheduler.address, PROVIDER),
            workers=[],
        )
    asked = [question.to_wire() for question in questions]
    batch = uuid.uuid4().hex[:12]
    # Pinned by name, which a worker keeps when the nanny restarts it, unlike its address. Not pure: the answer depends
    # on the models stored when the task runs.
    options = {"pure": False, "priority": QUERY_PRIORITY, "allow_other_workers": False}
    found = [
        client.submit(
            query_provider, key, scope, asked, key=f"{TASK_PREFIX}query-{batch}-{name}", workers=[name], **options
        )
        for name in providers
    ]
    return client.submit(reduce_matches, found, key=f"{TASK_PREFIX}best-{batch}", workers=providers, **options)


def query_provider(key: str, scope: str, questions: list[Any]) -> list[Any]:
    """Answer a batch of queries from the models of the provider that runs this task."""
    worker = get_worker()
    plugin = provider_plugin(worker, key)
    if not plugin.is_provider:
        raise NotDeployed(
            f"worker {worker.name!r} holds no shards of the repository: it has no resource 'provider'",
            worker=str(worker.name),
        )
    joined, settled = time.monotonic() + _JOIN_S, time.monotonic() + _PATIENCE_S
    # A provider that was just restarted has not joined yet, or has not opened its shards.
    while (host := plugin.host) is None or (not host.is_settled and time.monotonic() < settled):
        if worker.status not in WORKER_ANY_RUNNING:
            # The worker is closing: the one that replaces it answers.
            raise Reschedule
        if host is None and time.monotonic() > joined:
            raise ShardUnavailable(
                f"provider {worker.name!r} has not joined the repository within {_JOIN_S:.0f} s: its log says why; "
                "best_match goes on without it",
                worker=str(worker.name),
            )
        time.sleep(_PAUSE_S)
    return [match_to_wire(match) for match in host.models.best_many(scope, questions)]


def reduce_matches(answers: list[list[Any]]) -> tuple[PrefixMatch | None, ...]:
    """Return the best match of each query over all providers."""
    return best_of(answers)
