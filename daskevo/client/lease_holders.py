"""Asking the holder of a root's lease whether it lives: its scheduler's address, over the caller's own connections.

Nobody there is one answer, that it can't be asked from here another: who has no TLS, or the wrong certificates, must
not take a repository from a job that only doesn't talk to strangers.
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
"""The address of a repair without a cluster: it listens nowhere, and its lease goes with its process."""
_CONNECT_S = 2.0
"""Dask tries again until then, and says only at the end why it failed: before the question is given up."""
_ANSWER_S = 3.0
_QUESTION_S = 15.0
"""Longest wait for an answer: a dead host gives none, and a busy scheduler stands still for some seconds. Where nobody
listens nobody is asked again."""
_INPROC = "inproc://"


async def identity_at(holder: Holder, pool: Any) -> str | None:
    """Return the id of the scheduler at a holder's address; None if none answers there in time.

    Parameters
    ----------
    pool:
        A `distributed.core.ConnectionPool`: the connections that this process can make.

    Raises
    ------
    CannotAsk
        If that can't be found out from here.
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
    """Ask once; raises CannotAsk as `identity_at`, and OSError if nobody answers."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            comm = await connected(pool, address, _CONNECT_S)
            try:
                reply = await send_recv(comm, op="identity")
            finally:
                pool.reuse(address, comm)
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
    """Return what TLS itself said, if it is why a connection failed."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error.reason or type(error).__name__
        error = error.__cause__ or error.__context__
    return None


def _process(holder: Holder) -> int | None:
    """Return the process of an address ``inproc://HOST/PROCESS/NUMBER``."""
    parts = holder.address.removeprefix(_INPROC).split("/")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() and len(parts[1]) < 10 else None


def _is_of_this_process(holder: Holder) -> bool:
    return holder.host == socket.gethostname() and _process(holder) == os.getpid()


def _has_ended(holder: Holder) -> bool:
    """Whether the process is known to have ended: it was on this host, and is not there."""
    process = _process(holder)
    if process is None or holder.host != socket.gethostname():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
