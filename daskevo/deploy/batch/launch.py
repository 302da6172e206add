"""Makes a cluster on a batch system, from dask-jobqueue's class, its YAML and ours."""

from __future__ import annotations

import functools
import math
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dask
from dask.utils import parse_timedelta

from daskevo.deploy.batch.interfaces import ipv4_interfaces, say_missing
from daskevo.deploy.batch.jobqueue_import import jobqueue
from daskevo.deploy.batch.jobs import BatchCluster
from daskevo.deploy.batch.log_folder import missing_folders, remove_if_empty
from daskevo.deploy.batch.node_job import NodeJob
from daskevo.deploy.batch.walltime import margin_s, walltime_s
from daskevo.errors import BatchSystemError, InvalidInput

CLASSES = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "sge": "SGECluster",
    "lsf": "LSFCluster",
    "oar": "OARCluster",
    "moab": "MoabCluster",
    "htcondor": "HTCondorCluster",
}
"""Classes of dask-jobqueue by the word for the batch system. Slurm and PBS are tested; others are passed through."""

COMMAND = "daskevo_workflows.cli node"
"""What a job's script runs, after ``python -m``."""

NAME = "dask-worker"
"""Default name of dask-jobqueue's jobs."""


def batch_cluster(
    kind: str,
    *,
    jobs: int = 0,
    trainers_per_job: int | None = None,
    providers_per_job: int | None = None,
    provider_jobs: int = 0,
    provider_threads: int | None = None,
    gpus_per_trainer: int | None = None,
    cuda: bool | None = None,
    lifetime_margin: str | float | None = None,
    provider_options: Mapping[str, Any] | None = None,
    log_directory: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Any:
    """Start a Dask scheduler here, whose trainers and providers are jobs of a batch system.

    Each job runs on one node: providers, which keep the tensors, beside trainers. What isn't given is as in
    dask-jobqueue's YAML file (``jobqueue.slurm.cores``, ``.memory``, ``.walltime``, ``.queue``, ...) and in daskevo's
    own (``daskevo.batch.trainers-per-job``, ...).

    Parameters
    ----------
    kind:
        ``slurm`` or ``pbs``; also ``sge``, ``lsf``, ``oar``, ``moab`` and ``htcondor``, which are passed through to
        dask-jobqueue and are not tested.
    jobs:
        How many to submit; `scale` and `adapt` of the cluster change that.
    trainers_per_job:
        Processes that train, in each job, which share its cores, memory and GPUs; the YAML's ``processes`` if None.
    providers_per_job:
        1 if None; 0 where there are jobs of providers only.
    provider_jobs:
        Jobs of providers only, with one provider each. They stay when the others become fewer.
    provider_threads:
        Of each provider, for queries made of futures; 4 if None.
    gpus_per_trainer:
        None: one each while the job has any. The job has those that its script asks the batch system for.
    cuda:
        Whether dask-cuda finds them on each node, MIG instances too, and keeps trainers on the cores near theirs; no if
        None.
    lifetime_margin:
        How long before the walltime the workers of a job have left, in order, at the latest (seconds, or a time such as
        ``"5 minutes"``); None: a tenth of the walltime, at most 5 minutes. They leave up to as long earlier, at random,
        so that not all jobs end at once.
    provider_options:
        Options of dask-jobqueue in which jobs of providers only differ, such as ``cores`` and ``queue``.
    log_directory:
        Where jobs write what they say; ``daskevo-jobs`` if neither this nor the YAML file names one.
    **options:
        Of dask-jobqueue's class: ``cores``, ``memory``, ``walltime``, ``queue``, ``account``, ``interface``,
        ``job_extra_directives``, ``job_script_prologue``, ``scheduler_options``, ``asynchronous``, ...

    Returns
    -------
    A cluster of dask-jobqueue's class and :class:`daskevo.deploy.batch.jobs.BatchCluster`. It has not waited for jobs:
    :func:`daskevo.deploy.batch.first_workers.wait_for_workers` does, and says why they don't come.

    Raises
    ------
    InvalidInput
        If the numbers don't go together, or something is no option of dask-jobqueue.
    BatchSystemError
        If dask-jobqueue isn't installed, or the scheduler can't be started.
    """
    base = _class_of(kind)
    config = f"jobqueue.{options.get('config_name') or kind}"
    _check_size(config, options)
    trainers, providers = _roles(config, trainers_per_job, providers_per_job, provider_jobs)
    # Drawn: clusters of one name are equal to Dask, and `get_client` of a second one would return the first one's
    # client.
    name = f"daskevo-{uuid.uuid4().hex[:6]}"
    folder = Path(log_directory or dask.config.get(f"{config}.log-directory", None) or "daskevo-jobs").expanduser()
    if options.get("job_name") is None and dask.config.get(f"{config}.name", NAME) == NAME:
        options["job_name"] = "daskevo"
    extra = [*dask.config.get(f"{config}.worker-extra-args", []), *options.pop("worker_extra_args", [])]
    if gpus_per_trainer is None:
        gpus_per_trainer = dask.config.get("daskevo.batch.gpus-per-trainer", None)
    threads = provider_threads or dask.config.get("daskevo.batch.provider-threads", None) or 4
    lifetime_s, stagger_s = _lifetime(kind, config, options, lifetime_margin, extra)
    shared = [*extra, "--provider-threads", str(threads)]
    if lifetime_s < math.inf:
        shared += ["--lifetime", f"{lifetime_s:.0f}s", "--lifetime-stagger", f"{stagger_s:.0f}s"]
    own = ["--trainers", str(trainers), "--providers", str(providers)]
    if gpus_per_trainer is not None:
        own += ["--gpus-per-trainer", str(gpus_per_trainer)]
    if dask.config.get("daskevo.batch.cuda", None) if cuda is None else cuda:
        own.append("--cuda")
    options.setdefault("scheduler_options", dask.config.get(f"{config}.scheduler-options", None) or {})
    # Any free port, since several people run searches on one login node, and the usual one is taken.
    options["scheduler_options"] = {"dashboard_address": ":0", **options["scheduler_options"]}
    _check_interface(config, options)
    # Before dask-jobqueue makes them: only what wasn't there before may be removed again.
    made = missing_folders(folder.absolute())
    try:
        cluster = _classes(base)(
            kind=kind,
            trainers=trainers,
            providers=providers,
            provider_jobs=provider_jobs,
            lifetime_s=lifetime_s,
            provider_options={
                **(provider_options or {}),
                # One worker for each of these jobs, as far as dask-jobqueue and adaptive scaling count.
                "processes": 1,
                "worker_extra_args": [*shared, "--trainers", "0", "--providers", "1"],
            },
            name=name,
            processes=max(trainers, 1),
            worker_command=COMMAND,
            worker_extra_args=[*shared, *own],
            # Absolute, because the job script runs in a folder that the batch system chooses.
            log_directory=str(folder.absolute()),
            **options,
        )
    except (ValueError, RuntimeError) as error:
        remove_if_empty(made)
        if isinstance(error, RuntimeError):
            raise BatchSystemError(f"the scheduler could not be started: {error.__cause__ or error}") from error
        raise InvalidInput(f"dask-jobqueue can't make a cluster of {kind}: {error}") from error
    cluster.log_directory, cluster.made = folder.absolute(), made
    if jobs:
        cluster.scale(jobs=jobs)
    return cluster


def _check_size(config: str, options: Mapping[str, Any]) -> None:
    """See that it is known what a job has: a batch system gives no default."""
    names = [n for n in ("cores", "memory") if (options.get(n) or dask.config.get(f"{config}.{n}", None)) is None]
    if names:
        raise InvalidInput(
            f"{' and '.join(f'{config}.{name}' for name in names)} {'is' if len(names) == 1 else 'are'} not set, so "
            "that nobody knows what a job has: set this in ~/.config/dask/*.yaml; examples/batch/slurm.yaml (or "
            f"pbs.yaml) is one to begin with. In Python: batch_cluster(..., {'=..., '.join(names)}=...)"
        )


def _class_of(kind: str) -> Any:
    if kind not in CLASSES:
        raise InvalidInput(f"there is no batch system {kind!r:.60}: use one of {', '.join(CLASSES)}")
    return getattr(jobqueue(), CLASSES[kind])


@functools.cache
def _classes(base: Any) -> Any:
    """Return a class of dask-jobqueue with what is ours mixed in; its jobs likewise."""
    job = type(f"Node{base.job_cls.__name__}", (NodeJob, base.job_cls), {})
    return type(f"Node{base.__name__}", (BatchCluster, base), {"job_cls": job})


def _roles(config: str, trainers: int | None, providers: int | None, provider_jobs: int) -> tuple[int, int]:
    """Return how many trainers and providers a job has."""
    if trainers is None:
        trainers = dask.config.get("daskevo.batch.trainers-per-job", None) or dask.config.get(
            f"{config}.processes", None
        )
    if providers is None and not provider_jobs:
        providers = dask.config.get("daskevo.batch.providers-per-job", None)
    trainers = 1 if trainers is None else trainers
    providers = (0 if provider_jobs else 1) if providers is None else providers
    if trainers < 1 or providers < 0 or provider_jobs < 0:
        raise InvalidInput(
            f"jobs of {trainers} trainers and {providers} providers, and {provider_jobs} of providers only, were asked "
            "for: a job has at least one trainer, and none of these is negative"
        )
    if not providers and not provider_jobs:
        raise InvalidInput(
            "there would be no provider: nobody would keep the models. Use providers_per_job=1, or provider_jobs"
        )
    return trainers, providers


def _check_interface(config: str, options: Mapping[str, Any]) -> None:
    """Refuse a network that this host doesn't have: the scheduler could not listen on it."""
    of_scheduler = options["scheduler_options"]
    if of_scheduler.get("interface") is not None:
        name = of_scheduler["interface"]
        key = f"interface in {config}.scheduler-options (or in the argument scheduler_options)"
    elif "host" in of_scheduler:
        return
    elif options.get("interface") is not None:
        name, key = options["interface"], "the argument interface"
    else:
        name, key = dask.config.get(f"{config}.interface", None), f"{config}.interface in Dask's configuration"
    if name is not None and (words := say_missing(str(name), ipv4_interfaces(), key)) is not None:
        raise BatchSystemError(
            f"the scheduler could not be started: {words}. Name the network that this host and the nodes are both on; "
            f"where it has another name here than there, give this host's in {config}.scheduler-options, as in "
            "{interface: eth0}",
            interface=str(name),
        )


def _lifetime(
    kind: str, config: str, options: Mapping[str, Any], margin: str | float | None, extra: list[str]
) -> tuple[float, float]:
    """Return after how many seconds a node's workers leave, and how many earlier at most; infinite: nothing is said.

    They leave before the walltime, unless somebody has said it otherwise.
    """
    if any(str(word).startswith("--lifetime") for word in extra):
        return math.inf, 0.0
    found = options.get("walltime") or dask.config.get(f"{config}.walltime", None)
    limit = math.inf if found is None else walltime_s(found, kind=kind)
    if limit == math.inf:
        return math.inf, 0.0
    if margin is None:
        margin = dask.config.get("daskevo.batch.lifetime-margin", None)
    before = margin_s(limit) if margin is None else float(parse_timedelta(margin))
    if not 0 < before < limit:
        raise InvalidInput(
            f"lifetime_margin={margin!r} leaves nothing of a walltime of {found}: use a shorter margin, or a "
            "longer walltime"
        )
    # At most a quarter of the lifetime, of which a long margin would leave little to a short job.
    return limit - before, min(before, (limit - before) / 4)
