"""Which workers a node has, and what each gets of its threads, memory and GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from daskevo.deploy.role_options import provider_options, trainer_options
from daskevo.errors import InvalidInput


@dataclass(frozen=True)
class NodeWorker:
    """One worker of a node.

    Parameters
    ----------
    name:
        As Dask knows it.
    trains:
        Whether it is a trainer.
    options:
        For its nanny.
    """

    name: str
    trains: bool
    options: dict[str, Any]


def plan_node(
    name: str,
    *,
    trainers: int,
    providers: int,
    provider_threads: int,
    threads: int,
    memory_bytes: int | None,
    gpus: Sequence[str],
    gpus_per_trainer: int | None,
    cuda: bool = False,
) -> list[NodeWorker]:
    """Return the workers of a node, trainers first.

    Parameters
    ----------
    name:
        Of the job. Trainers are ``name-0``, ``name-1``, ... (a single one is ``name``), providers ``name-provider-0``,
        ...; of a node without trainers, the providers have the trainers' names.
    trainers, providers:
        How many there are.
    threads:
        Of the node, shared out among the trainers.
    memory_bytes:
        Of the node, in equal shares; None: no limits.
    gpus:
        Ids of the node's GPUs.
    gpus_per_trainer:
        None: one each while there are any, dealt out in turn where there are more trainers.
    cuda:
        Whether dask-cuda keeps each trainer on the cores near its GPUs.

    Raises
    ------
    InvalidInput
        If there would be nobody, or fewer GPUs than are needed.

    Examples
    --------
    >>> for worker in plan_node("job", trainers=2, providers=1, provider_threads=4, threads=8, memory_bytes=3 * 2**30,
    ...                         gpus=["0", "1"], gpus_per_trainer=None):
    ...     print(worker.name, worker.options["memory_limit"], worker.options["env"]["CUDA_VISIBLE_DEVICES"])
    job-0 1073741824 0
    job-1 1073741824 1
    job-provider-0 1073741824 -1
    """
    if trainers < 0 or providers < 0 or trainers + providers == 0:
        raise InvalidInput(
            f"a node of {trainers} trainers and {providers} providers was asked for: at least one of them is needed",
            trainers=trainers,
            providers=providers,
        )
    dealt = _deal(list(gpus), trainers, gpus_per_trainer)
    share = None if memory_bytes is None else memory_bytes // (trainers + providers)
    each = max(1, threads // max(trainers, 1))
    # The name alone if there is one worker of a kind, since dask-jobqueue expects just that of a job with one process.
    names = [name] if max(trainers, providers if not trainers else 0) == 1 else None
    planned = [
        NodeWorker(
            names[0] if names else f"{name}-{number}",
            True,
            {**trainer_options(each, gpu, cuda=cuda), "memory_limit": share},
        )
        for number, gpu in enumerate(dealt)
    ]
    for number in range(providers):
        provider = f"{name}-provider-{number}" if trainers else names[0] if names else f"{name}-{number}"
        planned.append(NodeWorker(provider, False, {**provider_options(provider_threads), "memory_limit": share}))
    return planned


def _deal(gpus: list[str], trainers: int, each: int | None) -> list[str | None]:
    """Return what each trainer sees of the GPUs."""
    if each == 0 or (each is None and not gpus):
        return [None] * trainers
    if each is None:
        return [gpus[number % len(gpus)] for number in range(trainers)]
    if each * trainers > len(gpus):
        raise InvalidInput(
            f"{trainers} trainers with {each} GPUs each need {each * trainers}, and this node has "
            f"{len(gpus)} ({', '.join(gpus) or 'none'}): ask the batch system for more, or for fewer trainers",
            gpus=len(gpus),
        )
    return [",".join(gpus[number * each : (number + 1) * each]) for number in range(trainers)]
