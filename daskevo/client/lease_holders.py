"""Find out whether the holder of a root's lease is alive, by asking the scheduler at its address.

"No scheduler answers" and "it can't be asked from here" are different results: a process without TLS, or with the wrong
certificates, must not take the repository from a running cluster that refuses its connections.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import Any

from daskevo.store.lease import CannotAsk, Holder
from daskevo.wire.dask_private import send_recv
from daskevo.wire.transport import NoConnection, connected, stands_still

REPAIR = "here"
"""Address in the lease of a repair without a cluster: it does not listen, and its lease ends with its process."""
_CONNECT_S = 2.0
"""Longest wait for a connection, in seconds; less than `_ANSWER_S`, since Dask retries until then and tells the reason
only at the end."""
_ANSWER_S = 3.0
"""Longest wait for one answer, connecting included, in seconds."""
_QUESTION_S = 15.0
"""Longest wait in all, in seconds: a dead host never answers, and a busy scheduler may take some seconds. An address
that refuses connections is not asked again."""
_INPROC = "inproc://"
"""Scheme of Dask clusters inside one process, which accept no connections from others."""


async def identity_at(holder: Holder, pool: Any) -> str | None:
    """Return the id of the scheduler at a holder's address; None if none answers there in time.

    Parameters
    ----------
    pool:
        A `distributed.core.ConnectionPool` with this process' certificates.

    Raises
    ------
    CannotAsk
        If this process can't find out, for example for lack of certificates.
    """
    if holder.address == REPAIR:
        return None
    if holder.address.startswith(_INPROC) and not _is_of_this_process(holder):
        if _has_ended(holder):
            return None
        raise CannotAsk("its scheduler is inside another process, and listens to nobody outside it")
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _QUESTION_S
    while True:
        try:
            return await _identity(holder.address, pool)
        except OSError as error:
            if loop.time() > deadline or not await stands_still(holder.address, error):
                return None


async def _identity(address: str, pool: Any) -> str | None:
    """Ask once; raise CannotAsk as `identity_at`, and OSError if nothing answers."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            comm = await connected(pool, address, _CONNECT_S)
            try:
                reply = await send_recv(comm, op="identity")
            finally:
                pool.reuse(address, comm)
    # A subclass of OSError, which is handled below: here it only means that nothing answers.
    except TimeoutError:
        raise
    except NoConnection as error:
        raise CannotAsk(str(error)) from error
    except OSError as error:
        refusal = _tls_refusal(error)
        if refusal is None:
            raise
        raise CannotAsk(
            f"something listens there, but no TLS connection came about ({refusal}); this process needs the "
            "certificates of that cluster"
        ) from error
    except RuntimeError as error:
        raise CannotAsk(f"this process does not connect to it ({str(error)[:200]})") from error
    except ValueError as error:
        raise CannotAsk(f"no connection can be made to that address ({str(error)[:200]})") from error
    return str(reply.get("id")) if isinstance(reply, dict) else None


def _tls_refusal(error: BaseException | None) -> str | None:
    """Return the reason that TLS gave, if a connection failed because of it."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error.reason or type(error).__name__
        error = error.__cause__ or error.__context__
    return None


def _process(holder: Holder) -> int | None:
    """Return the process id in an address ``inproc://HOST/PROCESS/NUMBER``."""
    # The address comes out of a file: text of any form and length must not raise here.
    parts = holder.address.removeprefix(_INPROC).split("/")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() and len(parts[1]) < 10 else None


def _is_of_this_process(holder: Holder) -> bool:
    return holder.host == socket.gethostname() and _process(holder) == os.getpid()


def _has_ended(holder: Holder) -> bool:
    """Whether the process is known to have ended: it was on this host and does not exist any more."""
    process = _process(holder)
    if process is None or holder.host != socket.gethostname():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # a process of another user has this id: it may be the holder
    return False
