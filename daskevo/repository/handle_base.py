"""Base of the repository handle: settings, scope, and the connection of the calling thread to the cluster.

Signatures give the results with a synchronous client and inside a task, where calls need no free slot of the worker.
With an asynchronous client, each method returns an awaitable of that, as Dask's own methods do.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from daskevo.client.connection import Connection, connect, is_in_task
from daskevo.deploy.settings import RepositorySettings
from daskevo.errors import InvalidInput
from daskevo.types import Objective

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
R = TypeVar("R")


class HandleBase:
    """Settings, scope and connection of a repository."""

    def __init__(
        self,
        settings: RepositorySettings,
        scope: str,
        objective: Objective | None,
        timeout_s: float,
        connection: Connection | None = None,
    ) -> None:
        self.settings = settings
        self.scope = scope
        self.objective = objective
        self.timeout_s = timeout_s
        self._connection = connection

    def __repr__(self) -> str:
        place = "in memory" if self.root is None else repr(self.root)
        return f"<{type(self).__name__} {place}, scope {self.scope!r}, objective {self.objective}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._connection is not None and self._connection.session.reads_without_reserving:
            raise InvalidInput("a repository opened without a cluster can't be sent to another process")
        # Without the connection, whose sockets belong to this process: the task that gets the handle connects by
        # itself.
        return type(self), (self.settings, self.scope, self.objective, self.timeout_s)

    @property
    def root(self) -> str | None:
        return self.settings.root

    @property
    def connection(self) -> Connection:
        """Connection of the calling thread to the cluster; inside a task, that of the task."""
        # In a task its own connection, also where workers are threads of the client's process: attempts must end with
        # the task, not with the client.
        if is_in_task() or self._connection is None:
            return connect(self.settings.key, self.timeout_s)
        return self._connection

    @property
    def client(self) -> Client:
        """The Dask client with which the repository was opened, or that of this process.

        Raises
        ------
        InvalidInput
            Inside a task, and if the repository was opened without a cluster.
        """
        client = getattr(self.connection, "client", None)
        if client is None:
            where = (
                "a task has none: call it in the process that has the client, and let tasks read, inherit and put"
                if is_in_task()
                else "the repository was opened without a cluster: open it with client=..."
            )
            raise InvalidInput(f"this needs a Dask client, and {where}")
        return client

    def _run(self, function: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        # The connection is this thread's; the coroutine runs in another.
        connection = self.connection
        return connection.run(function, connection.session, *arguments)

    def _run_then(self, function: Callable[..., Coroutine[Any, Any, T]], then: Callable[[T], R]) -> R:
        """Run a coroutine function, then call `then` with its result; in the caller's thread with a synchronous client.

        Building a Keras model belongs there: on the event loop it would block messages.
        """
        result = self._run(function)
        if not self.connection.asynchronous:
            return then(result)

        async def both() -> R:
            return then(await result)  # type: ignore[misc]

        return both()  # type: ignore[return-value]
