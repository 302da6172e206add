"""The cluster of a command: a local one of its own, one on a batch system, or one that runs already."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING

from daskevo_workflows.cli.batch_jobs import Batch, a_batch_cluster
from daskevo_workflows.cli.interrupts import put_off

if TYPE_CHECKING:
    from distributed import Client

UNDISTURBED = "daskevo_workflows.cli.worker_signals"
"""Preload of the workers of a local cluster."""

SECONDS_TO_KNOCK = 3.0
"""Longest wait for a scheduler's port before a client is left to try."""

TLS = (
    "if the cluster uses TLS, give its tls:// address, and name its certificates in Dask's configuration, "
    "distributed.comm.tls"
)
"""What to do where a scheduler hangs up."""


@contextlib.contextmanager
def a_cluster(
    scheduler: str | None, workers: int | None, providers: int = 1, batch: Batch | None = None
) -> Iterator[Client]:
    """Yield a client of the scheduler at this address, or of a new cluster: a local one, or one on a batch system.

    Parameters
    ----------
    workers, providers:
        Of a local cluster: trainers, one per core when None, and providers; with 0 providers, trainers are providers.

    Raises
    ------
    SchedulerUnreachable
        If nobody answers there.
    BatchSystemError
        If jobs can't be had.
    InvalidInput
        If the number of trainers of somebody else's cluster was given.
    """
    from daskevo.errors import InvalidInput, SchedulerUnreachable

    if batch is not None:
        with a_batch_cluster(batch) as client:
            yield client
        return
    if scheduler is None:
        import dask
        from dask.system import CPU_COUNT

        from daskevo.deploy.local import local_cluster

        with contextlib.ExitStack() as stack:
            # Ctrl-C in the middle of a start would leave worker processes behind that nobody closes.
            with put_off():
                cluster = stack.enter_context(
                    local_cluster(
                        workers or CPU_COUNT,
                        providers,
                        # The option replaces the configured list, so that one is repeated here.
                        preload=[*dask.config.get("distributed.worker.preload"), UNDISTURBED],
                        # Warnings of workers that are being stopped would tear the progress line; they are on the
                        # dashboard.
                        silence_logs=logging.ERROR,
                    )
                )
                client = stack.enter_context(cluster.get_client())
            yield client
        return
    if workers is not None:
        raise InvalidInput("--workers is for a local cluster: the scheduler's cluster has the trainers that it has")
    from distributed import Client

    try:
        _knock(scheduler)
        client = Client(scheduler, timeout="15s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise SchedulerUnreachable(
            f"no Dask scheduler answers at {scheduler} ({_reason(error)}); see its log for the address, "
            "or leave --scheduler out to start a local cluster",
            address=scheduler,
        ) from error
    with client:
        yield client


def _knock(scheduler: str) -> None:
    """See at once what a client finds out only when its time is over: no address, a closed port, no certificates.

    Raises
    ------
    OSError, ValueError
    """
    from distributed.comm.addressing import get_address_host_port, parse_address
    from distributed.security import Security

    host, port = get_address_host_port(scheduler)
    scheme, security = parse_address(scheduler)[0], Security()
    if scheme == "tls" and not security.tls_ca_file:
        raise ConnectionError(f"it takes TLS connections only, and no certificates are configured: {TLS}")
    if scheme == "tcp" and security.require_encryption:
        raise ConnectionError(f"Dask's configuration asks for encryption, and this address has none: {TLS}")
    if scheme in ("tcp", "tls"):
        # A host that doesn't answer is left to the client, which waits longer.
        with contextlib.suppress(TimeoutError), socket.create_connection((host, port), timeout=SECONDS_TO_KNOCK):
            pass


def _reason(error: BaseException) -> str:
    """Return why no connection came about, for somebody who may have to set TLS up."""
    if isinstance(error.__cause__, (ssl.SSLError, ConnectionError)):
        # A port without TLS, or with another cluster's certificates, is hung up on.
        return f"no connection that both sides take came about, {error}: {TLS}"
    return str(error)
