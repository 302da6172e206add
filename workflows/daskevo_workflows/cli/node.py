"""The command that starts a node's workers: `daskevo node`, and what a job's script calls.

It takes what dask-jobqueue gives to a worker's command, and what `dask worker` calls the same.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import click

COUNT = click.IntRange(min=0)


@click.command(
    short_help="Start the providers and trainers of one node of a cluster.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.argument("scheduler", required=False)
@click.option("--scheduler-file", type=click.Path(path_type=Path), metavar="FILE", help="Instead of SCHEDULER.")
@click.option("--name", metavar="NAME", help="Of the workers, numbered.  [default: the host's and the process's]")
@click.option("--trainers", type=COUNT, default=1, show_default=True, metavar="N", help="Workers that train.")
@click.option("--providers", type=COUNT, default=1, show_default=True, metavar="N", help="Workers that keep tensors.")
@click.option("--provider-threads", type=click.IntRange(min=1), default=4, show_default=True, metavar="N")
@click.option(
    "--nthreads", type=click.IntRange(min=1), metavar="N", help="Cores of each trainer.  [default: a share of all]"
)
@click.option(
    "--memory-limit",
    default="auto",
    show_default=True,
    metavar="BYTES",
    help="The node's memory divided by the number of trainers, such as 30GB; all workers get equal parts of it. 0: no "
    "limits.",
)
@click.option("--gpus-per-trainer", type=COUNT, metavar="N", help="0: none.  [default: one each while there are any]")
@click.option("--cuda", is_flag=True, help="Let dask-cuda find the GPUs, and keep trainers on the cores near theirs.")
@click.option("--lifetime", metavar="TIME", help="When the workers leave, one after the other, such as 110m.")
@click.option(
    "--lifetime-stagger",
    metavar="TIME",
    default="0s",
    help="They leave so much earlier at most, at random: not all nodes at once.",
)
@click.option("--death-timeout", metavar="TIME", help="How long a worker waits for the scheduler.")
@click.option("--local-directory", type=click.Path(), metavar="DIR", help="Scratch folder of the workers.")
@click.option("--interface", metavar="NAME", help="Network interface, such as ib0.")
@click.option("--protocol", metavar="NAME", help="Of the connections: tcp or tls.")
@click.option("--tls-ca-file", type=click.Path(), metavar="FILE")
@click.option("--tls-cert", type=click.Path(), metavar="FILE")
@click.option("--tls-key", type=click.Path(), metavar="FILE")
@click.option("--preload", multiple=True, metavar="MODULE", help="Loaded by each worker.")
def node(scheduler: str | None, scheduler_file: Path | None, **asked: Any) -> None:
    """Start this node's providers and trainers for the Dask scheduler at SCHEDULER, such as tcp://login1:8786.

    \b
    A provider beside four trainers, each with a GPU if there are four:
        daskevo node --scheduler-file /scratch/me/evo.json --trainers 4

    It ends when they have left, and ends them when it is told to (SIGTERM, as batch systems do): trainers at once,
    providers when they have handed their shards over.

    Exit codes: 0 they have left; 1 none could be started; 2 what was asked for can't be.
    """
    logging.basicConfig(format="%(asctime)s - %(name)s - %(levelname)s - %(message)s", level=logging.INFO)
    sys.exit(_run(scheduler, scheduler_file, asked))


def _run(scheduler: str | None, scheduler_file: Path | None, asked: dict[str, Any]) -> int:
    import socket

    from dask.system import CPU_COUNT
    from dask.utils import parse_timedelta
    from distributed.security import Security

    from daskevo.deploy.batch.interfaces import ipv4_interfaces, say_missing
    from daskevo.deploy.batch.node import run_node
    from daskevo.deploy.batch.node_plan import plan_node
    from daskevo.deploy.dask_cuda_gpus import find_gpus
    from daskevo.errors import InvalidInput

    network = asked["interface"]
    if network is not None and (words := say_missing(network, ipv4_interfaces(), "--interface")) is not None:
        raise InvalidInput(
            f"{words}. In a job of dask-jobqueue it comes from interface in its YAML file: name the nodes' network "
            "there, and that of the scheduler's host, if it has another name, in scheduler-options",
            interface=network,
        )
    # A lifetime counts from here: waiting for the scheduler's file is part of the job's time.
    began = time.time()
    trainers, providers, cuda = asked["trainers"], asked["providers"], asked["cuda"]
    # --nthreads is for each trainer, as dask-jobqueue passes it; the plan divides the node's.
    threads = CPU_COUNT if asked["nthreads"] is None else asked["nthreads"] * max(trainers, 1)
    workers = plan_node(
        # Two nodes may lie on one host, and a scheduler takes no name twice.
        asked["name"] or f"{socket.gethostname().partition('.')[0]}-{os.getpid()}",
        trainers=trainers,
        providers=providers,
        provider_threads=asked["provider_threads"],
        threads=threads,
        memory_bytes=_memory(asked["memory_limit"], max(trainers, 1)),
        gpus=find_gpus(cuda) if trainers else [],
        gpus_per_trainer=asked["gpus_per_trainer"],
        cuda=cuda,
    )
    tls = {
        "tls_ca_file": asked["tls_ca_file"],
        "tls_worker_cert": asked["tls_cert"],
        "tls_worker_key": asked["tls_key"],
        "tls_client_cert": asked["tls_cert"],
        "tls_client_key": asked["tls_key"],
    }
    security = Security(**{name: value for name, value in tls.items() if value is not None})
    ends = None
    if asked["lifetime"] is not None:
        stagger = float(parse_timedelta(asked["lifetime_stagger"]))
        ends = began + float(parse_timedelta(asked["lifetime"])) - random.uniform(0, stagger)
    address = scheduler or (None if scheduler_file is None else _address(scheduler_file, asked["death_timeout"]))
    if address is None:
        raise InvalidInput("no scheduler was named: give its address, or --scheduler-file")
    options = {name: asked[name] for name in ("death_timeout", "local_directory", "interface", "protocol")}
    given = {name: value for name, value in options.items() if value is not None}
    return asyncio.run(
        run_node(
            address,
            workers,
            options={**given, "security": security, "preload": list(asked["preload"]) or None, "dashboard": False},
            ends=ends,
            connection=security.get_connection_args("client"),
            listen=_listen,
        )
    )


def _memory(asked: str, trainers: int) -> int | None:
    """Return the bytes of the whole node, given those of each trainer."""
    from dask.utils import parse_bytes
    from distributed.system import MEMORY_LIMIT

    if asked == "auto":
        return int(MEMORY_LIMIT)
    # 0 means no limit, as for `dask worker`.
    return trainers * int(parse_bytes(asked)) or None


def _address(path: Path, timeout: str | None) -> str:
    """Return the address in a scheduler's file; wait for the file if it isn't there yet."""
    from dask.utils import parse_timedelta

    from daskevo.errors import SchedulerUnreachable
    from daskevo.wire.dask_private import json_load_robust

    wait_s = 60.0 if timeout is None else float(parse_timedelta(timeout))
    try:
        return str(json_load_robust(str(path), timeout=wait_s)["address"])
    except (OSError, TimeoutError, KeyError, ValueError) as error:
        raise SchedulerUnreachable(
            f"the scheduler's file {path} could not be read for {wait_s:g} s ({type(error).__name__}: {error}): does "
            "this node see it, and does the scheduler run?",
            address=None,
        ) from error


def _listen(told: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
