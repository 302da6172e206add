"""Dask cluster on one machine: providers and trainers under nannies, with threads and GPUs divided among them.

Two roles, both plain Dask workers (why: the design's measurement that a query on busy one-thread workers waits for
seconds): *providers* have several threads, the resource ``provider`` and never import TensorFlow; *trainers* have one
thread, the resource ``evaluation``, and share the cores and GPUs.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from dask.system import CPU_COUNT
from dask.utils import parse_bytes
from distributed import Nanny, Scheduler
from distributed.core import Status
from distributed.deploy.cluster import Cluster
from distributed.deploy.spec import SpecCluster
from distributed.security import Security
from distributed.system import MEMORY_LIMIT

from daskevo.deploy.adaptive import AdaptiveTrainers, check_limits
from daskevo.deploy.dashboard_address import dashboard_place
from daskevo.deploy.dask_cuda_gpus import find_gpus
from daskevo.deploy.role_options import provider_options, trainer_options
from daskevo.deploy.roles import EVALUATION
from daskevo.deploy.worker_environment import next_gpu
from daskevo.errors import InvalidInput
from daskevo.wire.dask_private import NoOpAwaitable

_CLOSING = (Status.closing, Status.closed)


class LocalEvoCluster(SpecCluster):  # type: ignore[misc]
    """A `SpecCluster` of named providers and trainers; `scale` and `adapt` change the number of trainers.

    Parameters
    ----------
    trainer:
        Makes the specification of one more trainer, given those of the workers that there are.
    workers, **options:
        As `SpecCluster` takes them.
    """

    _closing: asyncio.Task[None] | None = None

    def __init__(
        self, workers: dict[str, Any], trainer: Callable[[Iterable[Any]], dict[str, Any]], **options: Any
    ) -> None:
        self._trainer = trainer
        # Names are not used twice: the scheduler refuses a name whose worker is still leaving.
        self._next = sum(_is_trainer(spec) for spec in workers.values())
        super().__init__(workers=workers, worker=trainer(workers.values()), **options)

    def scale(self, n: int = 0, memory: int | str | None = None, cores: int | None = None) -> Any:
        """Scale to `n` trainers, or to an amount of memory (bytes) or a number of threads; providers are not changed.

        Those that have nothing to do are closed first. An evaluation on a trainer that is closed all the same is
        submitted again by its search; a trainer that comes gets its share. Trainers that come later share the cores and
        the memory with the others: give `threads_per_trainer` and `memory_limit` for the largest number. Where trainers
        are providers (``providers=0``), shards of one that is closed are opened by the others; of a repository in
        memory, its models go with it.
        """
        if self.status in _CLOSING:
            return super().scale(0)
        if memory is not None:
            n = max(n, math.ceil(parse_bytes(memory) / self._memory_per_worker()))
        if cores is not None:
            n = max(n, math.ceil(cores / self._threads_per_worker()))
        # The youngest go first, as Dask's own `scale` does; `sorted` keeps that order among those that are alike.
        trainers = [name for name, spec in reversed(self.worker_spec.items()) if _is_trainer(spec)]
        for name in sorted(trainers, key=self._is_busy)[: max(0, len(trainers) - n)]:
            del self.worker_spec[name]
        for _ in range(n - len(trainers)):
            self.worker_spec.update(self.new_worker_spec())
        # `scale` may be called in any thread, and the state belongs to the event loop.
        self.loop.add_callback(self._correct_state)
        return NoOpAwaitable() if self.asynchronous else None

    def adapt(
        self,
        Adaptive: Any = AdaptiveTrainers,
        *,
        minimum: int | None = None,
        maximum: float | None = None,
        **options: Any,
    ) -> Any:
        """Adapt the number of trainers to what searches can use.

        Parameters
        ----------
        Adaptive:
            What decides; see :class:`daskevo.deploy.adaptive.AdaptiveTrainers`.
        minimum:
            Trainers at least; as Dask's configuration says (0) when None.
        maximum:
            Trainers at most; one per core, or as many as `minimum`, when None.
        **options:
            ``interval``, ``wait_count`` and what else `distributed.SpecCluster.adapt` takes.

        Raises
        ------
        InvalidInput
            If no number of trainers is within these limits.
        """
        check_limits(minimum, maximum)
        most = max(CPU_COUNT, minimum or 0) if maximum is None else maximum
        return super().adapt(Adaptive=Adaptive, minimum=minimum, maximum=most, **options)

    def _is_busy(self, name: str) -> bool:
        scheduler: Any = self.scheduler
        worker = scheduler.workers.get(scheduler.aliases.get(name))
        return worker is not None and bool(worker.processing)

    async def _close(self) -> None:
        """Close the cluster, once for all callers; a time limit or Ctrl-C ends the waiting, and closing goes on.

        Dask's own, cancelled or failed on its way, leaves a cluster that is ``closing`` for ever, and the next
        `close`, such as that of a ``with`` block, waits for its end for ever.
        """
        if self._closing is None or self._has_failed(self._closing):
            self._closing = asyncio.get_running_loop().create_task(super()._close())
        await asyncio.shield(self._closing)

    def _has_failed(self, closing: asyncio.Task[None]) -> bool:
        if not closing.done() or not (closing.cancelled() or closing.exception()):
            return False
        self.status = Status.failed  # of such a cluster Dask closes what is left
        return True

    def _update_worker_status(self, op: str, msg: Any) -> None:
        """Do nothing for a worker that died: its nanny restarts it.

        Dask looks once, a while after each death, and closes the nanny of a worker that is away just then, be it for
        the second time.
        """
        if op == "remove":
            nanny = self.workers.get(self.scheduler_info["workers"][msg]["name"])
            if nanny is not None and nanny.status is Status.running:
                # Skips `SpecCluster`, which would schedule that look, and keeps what the class above does: it updates
                # the cluster's list.
                Cluster._update_worker_status(self, op, msg)
                return
        super()._update_worker_status(op, msg)

    def new_worker_spec(self) -> dict[str, Any]:
        """Return the name and the specification of one more trainer."""
        number, self._next = self._next, self._next + 1
        return {f"trainer-{number}": self._trainer(self.worker_spec.values())}


def _is_trainer(spec: Mapping[str, Any]) -> bool:
    return EVALUATION in spec.get("options", {}).get("resources", {})


def local_cluster(
    trainers: int | None = None,
    providers: int = 1,
    *,
    provider_threads: int = 4,
    threads_per_trainer: int | None = None,
    gpus: list[str] | None = None,
    cuda: bool = False,
    memory_limit: int | str | None = "auto",
    local_directory: str | os.PathLike[str] | None = None,
    host: str = "127.0.0.1",
    dashboard_address: str | None = ":0",
    env: Mapping[str, str] | None = None,
    security: Security | bool | None = None,
    asynchronous: bool = False,
    silence_logs: int | bool = logging.WARNING,
    **options: Any,
) -> LocalEvoCluster:
    """Start a Dask cluster with providers and trainers on this machine.

    Parameters
    ----------
    trainers:
        Workers that evaluate candidates, named ``trainer-0``, ``trainer-1``, ...; one evaluation at a time each. None:
        2, or with `cuda` one per GPU.
    providers:
        Workers that hold shards of the repository, named ``provider-0``, ...  With 0 every trainer is a provider too:
        cheaper in processes, but the tensors then live in processes that train, and go with them.
    provider_threads:
        Threads of a provider for queries made of futures.
    threads_per_trainer:
        Threads that TensorFlow may use in one trainer; an equal share of the cores when None.
    gpus:
        Ids for ``CUDA_VISIBLE_DEVICES``, dealt out to the trainers in turn; those of this machine when None.
    cuda:
        Ask dask-cuda (``pip install 'daskevo[cuda]'``) which GPUs there are, MIG instances too, and keep each trainer
        on the cores near its own. Without it trainers get GPUs all the same, where there are any.
    memory_limit:
        Bytes per worker, as Dask understands it; ``"auto"`` is an equal share of the machine's memory.
    local_directory:
        Scratch folder of the workers.
    host, dashboard_address:
        Where the scheduler listens; dashboard_address None turns the dashboard off.
    env:
        Further environment variables of all workers.
    security:
        TLS between all processes: a `distributed.security.Security`, or True for certificates that are made for this
        cluster alone (with the package ``cryptography``). None: as Dask's configuration says.
    asynchronous:
        Return a cluster for use in an event loop.
    silence_logs:
        Level under which Dask's own messages are not shown.
    **options:
        Passed on to every `distributed.Nanny`.

    Raises
    ------
    InvalidInput
        If there would be no trainer, a number is negative, `security` or `dashboard_address` is something else, or
        dask-cuda is missing.
    ClusterError
        If there is no GPU for `cuda`.

    Examples
    --------
    >>> with daskevo.local_cluster(trainers=2) as cluster, cluster.get_client() as client:  # doctest: +SKIP
    ...     repository = daskevo.open("evo", client=client)
    """
    devices = find_gpus(cuda) if gpus is None else list(gpus)
    if trainers is None:
        trainers = len(devices) if cuda else 2
    if trainers < 1 or providers < 0 or provider_threads < 1:
        raise InvalidInput(
            f"a local cluster of {trainers} trainers and {providers} providers with {provider_threads} threads was "
            "asked for: at least one trainer and one provider thread are needed, and providers can't be negative",
            trainers=trainers,
            providers=providers,
        )
    secured = _security(security)
    encryption = {"security": secured, "protocol": "tls://" if secured.require_encryption else "tcp://"}
    threads = threads_per_trainer or max(1, CPU_COUNT // trainers)
    if memory_limit == "auto":
        memory_limit = MEMORY_LIMIT // (trainers + providers)
    common = {
        "memory_limit": memory_limit,
        "local_directory": None if local_directory is None else str(Path(local_directory).absolute()),
        "host": host,
        "dashboard": False,
        "silence_logs": silence_logs,
        **encryption,
        **options,
    }
    workers: dict[str, dict[str, Any]] = {
        f"provider-{number}": {
            "cls": Nanny,
            "options": _with_env({**common, **provider_options(provider_threads)}, env),
        }
        for number in range(providers)
    }

    def trainer(others: Iterable[Any]) -> dict[str, Any]:
        gpu = next_gpu(devices, (other["gpu"] for other in others if _is_trainer(other)))
        own = trainer_options(threads, gpu, provides=providers == 0, cuda=cuda)
        # What the caller gives as `config` goes before the calmer settings of trainers.
        given = {**common, **own, "config": {**own["config"], **common.get("config", {})}}
        return {"cls": Nanny, "options": _with_env(given, env), "gpu": gpu}

    for number in range(trainers):
        workers[f"trainer-{number}"] = trainer(workers.values())
    scheduler = {
        "cls": Scheduler,
        "options": {
            "host": host,
            "port": 0,
            "dashboard": dashboard_address is not None,
            # Without a dashboard there is still a server for health and metrics: let it take any port.
            "dashboard_address": ":0" if dashboard_address is None else dashboard_place(dashboard_address),
            **encryption,
        },
    }
    return LocalEvoCluster(
        workers=workers,
        trainer=trainer,
        scheduler=scheduler,
        asynchronous=asynchronous,
        silence_logs=silence_logs,
        security=secured,
        # Clusters of one name are equal to Dask: `get_client` of a second one would return the first one's client.
        name=f"daskevo-{uuid.uuid4().hex[:8]}",
    )


def _with_env(options: dict[str, Any], env: Mapping[str, str] | None) -> dict[str, Any]:
    return {**options, "env": {**options["env"], **(env or {})}}


def _security(asked: Security | bool | None) -> Any:
    if isinstance(asked, Security):
        return asked
    if asked is None:
        return Security()
    if asked is True:
        return Security.temporary()
    raise InvalidInput(f"security={asked!r} was asked for: use a distributed.security.Security, True or None")
