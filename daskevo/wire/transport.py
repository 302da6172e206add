"""Calls to coordinator and providers over Dask's connection pool, with a time limit each and typed errors.

Dask answers an unknown operation with None, and a call to a dead address takes 30 s to fail. Here every call has its
own time limit, connecting has a short one, and a failed call raises one of three kinds of error: the typed error that
the other side raised, `NotDeployed` if the operation is not known there, or `NoAnswer` if no answer came (for the
scheduler `SchedulerUnreachable`).
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from distributed.comm import get_address_host_port
from distributed.protocol import to_serialize

from daskevo import errors
from daskevo.types import check_path
from daskevo.wire.dask_private import refusal_of, send_recv
from daskevo.wire.schema import check_arguments
from daskevo.wire.to_the_end import to_the_end

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 3.0
"""Longest wait for a connection, in seconds: a dead address must not cost Dask's 30 s. Connecting to the scheduler is
tried again until the call's own limit: it may be suspended for some seconds, and no other process can answer."""

Handler = Callable[..., Any]


class NoAnswer(Exception):
    """No answer came in time, or the connection broke: the operation may have been carried out or not.

    Parameters
    ----------
    late:
        Whether the call ran into its time limit; otherwise it was refused or broken off before.
    """

    def __init__(self, address: str, method: str, reason: str, *, late: bool = False) -> None:
        super().__init__(f"{address} gave no answer to {method!r}: {reason}")
        self.address = address
        self.method = method
        self.reason = reason
        self.late = late


class Transport(Protocol):
    """Calls to the coordinator and to providers of one repository."""

    async def coordinator(self, method: str, *, timeout_s: float, **arguments: Any) -> Any:
        """Call the coordinator.

        Raises
        ------
        NotDeployed
            If the scheduler has no coordinator of this repository.
        SchedulerUnreachable
            If no answer came within `timeout_s` seconds.
        """
        ...

    async def provider(self, address: str, method: str, *, timeout_s: float, **arguments: Any) -> Any:
        """Call the provider at `address`.

        Raises
        ------
        NoAnswer
            If no answer came within `timeout_s` seconds, or `address` has no provider of this repository (yet).
        """
        ...

    def is_here(self, address: str) -> bool:
        """Whether the provider at `address` is in this process, so that arguments are passed by reference."""
        ...


def repository_key(root: str | os.PathLike[str] | None) -> str:
    """Return a short key of a repository, used in names of operations and plugins to tell repositories apart.

    Examples
    --------
    >>> repository_key(None)
    'memory'
    >>> repository_key("/scratch/me/evo") == repository_key("/scratch/me/x/../evo/")
    True
    """
    if root is None:
        return "memory"
    return hashlib.blake2b(os.fsencode(root_path(root)), digest_size=6).hexdigest()


def root_path(root: str | os.PathLike[str]) -> str:
    """Return the root as an absolute path without ``..``; symbolic links stay, since hosts may mount them differently.

    Raises
    ------
    InvalidInput
        If the path is not valid UTF-8.
    """
    return check_path(os.path.normpath(Path(root).expanduser().absolute()), "root")


def operation(role: str, key: str, method: str) -> str:
    """Return the name of a method among Dask's handlers, for example ``daskevo_provider_memory_match``."""
    return f"daskevo_{role}_{key}_{method}"


def serve(handlers: dict[str, Handler], role: str, key: str, methods: Mapping[str, Handler]) -> None:
    """Add `methods` to a Dask server's handlers; daskevo's errors are sent to the caller, others also logged."""
    for method, function in methods.items():
        handlers[operation(role, key, method)] = _answering(role, method, function)


def withdraw(handlers: dict[str, Handler], role: str, key: str) -> None:
    """Stop serving the methods of one repository.

    Their handlers answer None from now on, as Dask does for an unknown operation. Removing the handlers instead would
    have Dask log a traceback for each late message.
    """
    prefix = operation(role, key, "")
    for name in [name for name in handlers if name.startswith(prefix)]:
        handlers[name] = _withdrawn


def _withdrawn(**arguments: Any) -> None:
    return None


def _answering(role: str, method: str, function: Handler) -> Handler:
    async def handler(**arguments: Any) -> dict[str, Any]:
        reply = await answer(method, function, arguments, role)
        value = reply.get("value")
        return {"value": _shippable(value)} if isinstance(value, dict) else reply

    handler.__name__ = method
    return handler


async def answer(
    method: str, function: Handler, arguments: Mapping[str, Any], role: str | None = None
) -> dict[str, Any]:
    """Run a method and wrap its result or error in a reply that msgpack can encode.

    Parameters
    ----------
    role:
        ``provider`` or ``coordinator`` if the arguments came in a message, which are then checked; None in process.
    """
    try:
        if role is not None:
            check_arguments(role, method, arguments)
        value = function(**arguments)
        if inspect.isawaitable(value):
            value = await value
    # Errors travel as values: Dask would pickle an exception, and fail if the other side lacks its class.
    except errors.DaskevoError as error:
        return {"error": [type(error).__name__, error.message, _plain(error.facts)]}
    except Exception as error:
        logger.exception("daskevo: %s failed", method)
        return {"error": ["ClusterError", f"{method} failed: {type(error).__name__}: {error}", {}]}
    return {"value": value}


def _shippable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Mark arrays for Dask's own serialization, without a copy; unmarked, Dask would pickle the whole message."""
    return {name: _marked(value) for name, value in values.items()}


def _marked(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return to_serialize(value)
    # Of all lists only these two kinds hold arrays; searching every list would cost time, since some are long.
    if isinstance(value, Replies):
        return [_marked_reply(reply) for reply in value]
    if isinstance(value, Frames):
        return [to_serialize(frame) for frame in value]
    return value


def _marked_reply(reply: Any) -> Any:
    value = reply.get("value") if isinstance(reply, dict) else None
    return {"value": _shippable(value)} if isinstance(value, dict) else reply


class Frames(list[Any]):
    """Arrays that hold the tensor bytes of one message."""


class Replies(list[Any]):
    """Replies of `answer` to the calls of one message that carried several."""


def value_of(reply: Any) -> Any:
    """Return the value of a reply, or raise the typed error in it."""
    if "error" in reply:
        raise typed_error(*reply["error"])
    return reply["value"]


def typed_error(kind: str, message: str, facts: Mapping[str, Any]) -> errors.DaskevoError:
    """Return an error of the class `kind` of `daskevo.errors`, or a ClusterError if it has none of that name."""
    cls = getattr(errors, kind, None)
    # The name comes out of a message: only classes of the error tree may be called.
    if not (isinstance(cls, type) and issubclass(cls, errors.DaskevoError)):
        cls = errors.ClusterError
    return cls(message, **facts)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


class NoConnection(ConnectionError):
    """This process can't connect to an address, for a reason of its own."""


class NoCertificates(NoConnection):
    """An address accepts TLS connections only, and this process has no certificates."""

    def __init__(self) -> None:
        super().__init__("it takes TLS connections only, and this process has no certificates for one")


async def connected(pool: Any, address: str, timeout_s: float) -> Any:
    """Take a connection from a pool; the caller returns it with ``pool.reuse``.

    Raises
    ------
    NoConnection
        If the pool refuses: there are no certificates for TLS (`NoCertificates`), the configuration requires
        encryption and the address has none, or the pool is closed.
    OSError
        If the connection was not made in time.
    """
    try:
        return await pool.connect(address, timeout=timeout_s)
    except TypeError as error:  # Dask raises it for a tls:// address without certificates
        raise NoCertificates from error
    except RuntimeError as error:
        if (reason := refusal_of(pool, address)) is None:
            raise
        raise NoConnection(reason) from error


async def stands_still(address: str, error: BaseException) -> bool:
    """Whether connecting failed by a time limit although a process may listen there, suspended or overloaded.

    A time-out alone does not tell: Dask retries until its limit, and may report a time-out for an address that refused
    every attempt. So a plain TCP connection is tried, for 1 s.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, TimeoutError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return False  # not a time-out: refused or unreachable
    try:
        host, port = get_address_host_port(address)
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 1.0)
    except ConnectionRefusedError:
        return False
    except (OSError, ValueError, NotImplementedError):
        return True
    writer.close()
    return True


class PoolTransport:
    """Calls over the connection pool of a Dask client, worker or scheduler.

    Parameters
    ----------
    pool:
        A `distributed.core.ConnectionPool`: `Client.rpc`, `Worker.rpc` or `Scheduler.rpc`.
    scheduler_address:
        Address of the scheduler, which runs the coordinator.
    key:
        The repository's key, see `repository_key`.
    local:
        Returns the methods of a provider in this process by its address, which are called without a message; None for
        all other addresses.
    """

    def __init__(
        self,
        pool: Any,
        scheduler_address: str,
        key: str,
        local: Callable[[str], Mapping[str, Handler] | None] = lambda address: None,
    ) -> None:
        self.pool = pool
        self.scheduler_address = scheduler_address
        self.key = key
        self._local = local

    async def coordinator(self, method: str, *, timeout_s: float, **arguments: Any) -> Any:
        name = operation("coordinator", self.key, method)
        try:
            reply = await self._call(self.scheduler_address, name, timeout_s, arguments, again=True)
        except NoAnswer as error:
            raise errors.SchedulerUnreachable(
                f"the scheduler at {self.scheduler_address} did not answer {method!r} within {timeout_s:.1f} s "
                f"({error.reason}): is the cluster still running?",
                address=self.scheduler_address,
            ) from error
        if reply is None:
            raise errors.NotDeployed(
                f"the scheduler at {self.scheduler_address} has no coordinator of this repository: "
                "call daskevo.open first, and again if the scheduler was restarted",
                address=self.scheduler_address,
            )
        return value_of(reply)

    async def provider(self, address: str, method: str, *, timeout_s: float, **arguments: Any) -> Any:
        methods = self._local(address)
        if methods is not None:
            here = method_of(methods, address, method)
            # As with a message to another process: a caller that times out or is cancelled does not stop the method.
            return value_of(await _within(timeout_s, to_the_end(answer(method, here, arguments)), address, method))
        reply = await self._call(address, operation("provider", self.key, method), timeout_s, arguments)
        if reply is None:
            raise NoAnswer(address, method, "no provider of this repository there")
        return value_of(reply)

    def is_here(self, address: str) -> bool:
        return self._local(address) is not None

    async def _call(
        self, address: str, name: str, timeout_s: float, arguments: Mapping[str, Any], *, again: bool = False
    ) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        # Connecting and the answer share one limit, so that a call never takes longer than its caller allows.
        comm = await self._connected(address, name, deadline, again)
        try:
            # Above 0, or `wait_for` would cancel the call before it has begun.
            return await _within(
                max(deadline - loop.time(), 0.001),
                send_recv(comm=comm, op=name, **_shippable(arguments)),
                address,
                name,
            )
        finally:
            # Also after a time-out: `send_recv` has closed the connection then, and the pool drops closed ones.
            self.pool.reuse(address, comm)

    async def _connected(self, address: str, name: str, deadline: float, again: bool) -> Any:
        loop = asyncio.get_running_loop()
        while True:
            limit_s = max(min(CONNECT_TIMEOUT_S, deadline - loop.time()), 0.001)
            try:
                # Dask's own limit is the shorter one, so that its error, which gives the reason, comes first.
                return await _within(limit_s, connected(self.pool, address, 0.9 * limit_s), address, name)
            except NoAnswer as error:
                if not (again and loop.time() < deadline and await stands_still(address, error)):
                    raise


def method_of(methods: Mapping[str, Handler], address: str, method: str) -> Handler:
    """Return a method of a provider in this process; raises NoAnswer if it has none of that name."""
    if method not in methods:
        raise NoAnswer(address, method, "no provider there knows that operation")
    return methods[method]


async def _within(timeout_s: float, call: Awaitable[Any], address: str, method: str) -> Any:
    try:
        return await asyncio.wait_for(call, timeout_s)
    except TimeoutError as error:
        raise NoAnswer(address, method, f"time limit of {timeout_s:.2g} s", late=True) from error
    except OSError as error:  # CommClosedError and refused connections
        raise NoAnswer(address, method, str(error) or type(error).__name__) from error
