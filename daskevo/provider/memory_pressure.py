"""A provider gives memory back when its process takes as much as makes Dask spill, before Dask would pause it.

Dask's memory monitor lets a worker's own mapping of results spill. What a plugin holds it counts, and can't free: the
provider looks at the same figure as often, and at the same thresholds of Dask's configuration
(``distributed.worker.memory``: ``spill``, ``target``, ``monitor-interval``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from daskevo.store.tiers import Tensors

logger = logging.getLogger(__name__)


class Pressure(NamedTuple):
    """When a process takes too much memory.

    Parameters
    ----------
    taken:
        Returns what the process takes, in bytes.
    spill_bytes, target_bytes:
        From where on memory is given back, and how far.
    interval_s:
        How often that is looked at.
    """

    taken: Callable[[], int]
    spill_bytes: float
    target_bytes: float
    interval_s: float

    @classmethod
    def of(cls, worker: Any) -> Pressure | None:
        """Return what Dask's configuration says for a worker; None if it neither spills nor pauses there."""
        manager = worker.memory_manager
        spill = manager.memory_spill_fraction or manager.memory_pause_fraction
        if not manager.memory_limit or not spill:
            return None
        target = min(manager.memory_target_fraction or spill, spill)
        return cls(
            worker.monitor.get_process_memory,
            spill * manager.memory_limit,
            target * manager.memory_limit,
            manager.memory_monitor_interval,
        )

    def relieve(self, tensors: Tensors) -> int:
        """Take tensors out of memory until the process takes no more than the target; return their bytes. May block."""
        freed = 0
        if self.taken() > self.spill_bytes:
            while self.taken() > self.target_bytes and (nbytes := tensors.evict()) >= 0:
                freed += nbytes
        return freed


async def spill_under_pressure(tensors: Tensors, pressure: Pressure | None) -> None:
    """Relieve the process whenever it has to be, until cancelled."""
    while pressure is not None:
        await asyncio.sleep(pressure.interval_s)
        if pressure.taken() > pressure.spill_bytes:
            freed = await asyncio.to_thread(pressure.relieve, tensors)
            if freed:
                logger.info("daskevo: the process takes much memory: %d bytes of tensors were taken out of it", freed)
