"""The provider: a Dask WorkerPlugin that stores shards on workers with the resource ``provider``.

On other workers (trainers) the same plugin only checks versions and access to the root, and makes the repository known
to tasks (`daskevo.get_repository`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin

from daskevo.client.directory import CALL_TIMEOUT_S
from daskevo.client.session import Session
from daskevo.deploy.roles import EVALUATION, PROVIDER
from daskevo.deploy.settings import RepositorySettings, check_versions
from daskevo.errors import DaskevoError
from daskevo.protocol.hashing import shard_of
from daskevo.provider.handlers import ProviderHandlers
from daskevo.provider.host import ShardHost
from daskevo.provider.memory_pressure import Pressure, spill_under_pressure
from daskevo.provider.stats import figures
from daskevo.store.root import Root
from daskevo.store.tiers import DurableTensors, SpillingTensors, Tensors
from daskevo.types import JSON, Attempt, ModelId
from daskevo.wire.transport import Handler, PoolTransport, serve, withdraw
from daskevo_plugins import metrics

logger = logging.getLogger(__name__)

OWNER_TIMEOUT_S = 10.0
"""Longest wait for another provider's shard while retiring or auditing; after that it is tried again later."""

HAND_OVER_S = 3.0
"""Longest wait of a closing worker for others to take its shards over: some nannies kill it after four seconds."""


def plugin_name(key: str) -> str:
    """Return the name under which the provider of a repository is registered."""
    return f"daskevo-provider-{key}"


class ProviderPlugin(WorkerPlugin):  # type: ignore[misc]
    """The plugin of one repository on one worker.

    Parameters
    ----------
    settings:
        Settings that the repository was opened with.
    part:
        Token of the coordinator that sends it to workers; None if a task on the worker fetched it.
    """

    idempotent = True

    def __init__(self, settings: RepositorySettings, part: str | None = None) -> None:
        self.settings = settings
        self.part = part
        self.name = plugin_name(settings.key)

    async def setup(self, worker: Any) -> None:
        """Serve `check` on every worker; on providers also join the coordinator."""
        self._worker = worker
        self._joined: tuple[str | None, int] | None = None
        """Repository id and coordinator generation that were joined last."""
        self._joining = asyncio.Lock()
        self._over = False
        self.host: ShardHost | None = None
        self._spilling: asyncio.Task[None] | None = None
        self.transport = PoolTransport(worker.rpc, worker.scheduler.address, self.settings.key, self._local_methods)
        self.session = Session(self.transport, OWNER_TIMEOUT_S)
        # Only these until it has joined: other messages get None, upon which callers ask for the table again.
        serve(worker.handlers, "provider", self.settings.key, {"check": self.check, "end_part": self.end_part})
        try:
            # New and restarted workers join by themselves; no client need ask.
            await self.check(self.settings.versions)
        except DaskevoError as error:
            # The next `open` gets the same error raised.
            logger.warning("daskevo: worker %s takes no part in the repository: %s", worker.name, error)

    async def teardown(self, worker: Any) -> None:
        """Hand the shards over if there is time, then stop serving.

        No data depend on the hand-over: what was acknowledged is already durable.
        """
        # First of all: a join that is under way must not set up a new host now.
        self._over = True
        if self.host is not None and self.host.shards and self.settings.root is not None:
            try:
                await self.transport.coordinator(
                    "leave",
                    timeout_s=HAND_OVER_S + 0.5,
                    name=self.host.name,
                    address=worker.address,
                    patience_s=HAND_OVER_S,
                )
            except DaskevoError as error:
                logger.info("daskevo: %s goes without handing over its shards: %s", worker.name, error)
        # Before the host closes: what arrives from here on is sent to the next owner instead of failing halfway.
        withdraw(worker.handlers, "provider", self.settings.key)
        metrics.withdraw(self)
        if self._spilling is not None:
            self._spilling.cancel()
        if self.host is not None:
            await self.host.close()
            self.host = None

    async def end_part(self, part: str) -> bool:
        """Remove this plugin because its coordinator has closed; return False if another coordinator's plugin is here.

        The message may arrive late, after a suspended worker has got the next coordinator's plugin.
        """
        if self.part not in (None, part) or self._worker.plugins.get(self.name) is not self:
            return False
        await self._worker.plugin_remove(name=self.name)
        return True

    @property
    def is_provider(self) -> bool:
        """Tell whether this worker has the resource ``provider``."""
        return self._worker.state.total_resources.get(PROVIDER, 0) > 0  # type: ignore[no-any-return]

    def metrics(self) -> Iterable[tuple[str, tuple[str, ...], Any]]:
        """Return the values for ``/metrics`` (see :mod:`daskevo_plugins.metrics`)."""
        if self.host is None:
            return ()
        where, counts = self.settings.root or "memory", vars(self.host.tally)
        return metrics.provider_metrics(where, self.host.name, figures(self.host), counts)

    def _local_methods(self, address: str) -> Mapping[str, Handler] | None:
        if self.host is None or address != self._worker.address:
            return None
        return ProviderHandlers(self.host).local_methods()

    async def check(self, versions: dict[str, str]) -> dict[str, JSON]:
        """Check this worker's versions, access to the root and memory; a provider then joins the coordinator.

        Raises
        ------
        VersionMismatch, RootUnusable, InvalidInput
            The message says what is wrong and on which worker.
        """
        where = f"worker {self._worker.name!r} at {self._worker.address}"
        check_versions(versions, where, trains=EVALUATION in self._worker.state.total_resources)
        facts = await self.transport.coordinator("facts", timeout_s=CALL_TIMEOUT_S)
        root = None
        if self.settings.root is not None:
            root = await asyncio.to_thread(self._see_root, facts["repository_id"], where)
        if self.is_provider:
            async with self._joining:
                await self._join(root, facts)
        return {"provider": self.is_provider, "name": str(self._worker.name)}

    def _see_root(self, repository_id: str, where: str) -> Root:
        try:
            root = Root.open(self.settings.root or "")
            root.check_sight(repository_id)
        except DaskevoError as error:
            # The same class, so that `open` can tell the user's mistakes apart, with the worker named.
            raise type(error)(f"{where} does not see the root: {error.message}", **error.facts) from error
        return root

    async def _join(self, root: Root | None, facts: Mapping[str, Any]) -> None:
        known = facts["repository_id"], facts["generation"]
        # The plugin may be removed while it is still being set up.
        if self._joined == known or self._over:
            return
        if self.host is not None and self.host.root is not None and self.host.root.repository_id != known[0]:
            # The root folder was removed, and a new repository created in its place.
            if self._spilling is not None:
                self._spilling.cancel()
            await self.host.close()
            self.host = None
            metrics.withdraw(self)
        if self.host is None:
            manager = self._worker.memory_manager
            # What this process takes already counts: one that trains as well may have loaded Keras.
            taken = self._worker.monitor.get_process_memory()
            budget = self.settings.budget(manager.memory_limit, manager.memory_pause_fraction, taken)
            tensors = self._tensors(root, budget.kept)
            self.host = ShardHost(
                str(self._worker.name),
                root,
                tensors,
                self.session,
                budget,
                quota_bytes=self.settings.quota,
                shards_in_all=facts["shards"],
                # A worker without a nanny may run in the user's own process.
                alone=self._worker.nanny is not None and EVALUATION not in self._worker.state.total_resources,
            )
            # Serve before joining: the coordinator may assign shards at once.
            serve(self._worker.handlers, "provider", self.settings.key, ProviderHandlers(self.host).methods())
            self.host.start()
            self._spilling = asyncio.create_task(spill_under_pressure(tensors, Pressure.of(self._worker)))
            metrics.offer(self)
        await self.transport.coordinator(
            "join", timeout_s=CALL_TIMEOUT_S, name=str(self._worker.name), address=self._worker.address
        )
        self._joined = known

    def _tensors(self, root: Root | None, budget: int) -> Tensors:
        if root is None:
            folder = Path(self._worker.local_directory) / f"daskevo-{self.settings.key}"
            return SpillingTensors(folder, budget)

        def locate(model_id: ModelId, attempt: Attempt) -> Path:
            return root.shard(shard_of(model_id, root.shards)).segment_path(model_id, attempt)

        return DurableTensors(locate, budget, sync=root.durability == "synced")
