"""Free a provider's memory when its process reaches Dask's spill threshold, before Dask would pause the worker.

Dask's memory monitor spills a worker's results. It counts the memory of plugins but can't free it. So the provider
watches the same figure, at the same interval, with the thresholds of Dask's configuration
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
    """Memory thresholds of a process.

    Parameters
    ----------
    taken:
        Returns the memory of the process, in bytes.
    spill_bytes, target_bytes:
        Threshold above which memory is freed, and the size down to which it is freed.
    interval_s:
        Interval between checks, in seconds.
    """

    taken: Callable[[], int]
    spill_bytes: float
    target_bytes: float
    interval_s: float

    @classmethod
    def of(cls, worker: Any) -> Pressure | None:
        """Read the thresholds of a worker from Dask's configuration; None if the worker neither spills nor pauses."""
        manager = worker.memory_manager
        # Each of Dask's thresholds may be switched off (False): the next higher one stands in for it.
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
        """Evict tensors until the process is below the target; return the bytes evicted. May block on the disk."""
        freed = 0
        if self.taken() > self.spill_bytes:
            # A negative size means that nothing is left to evict.
            while self.taken() > self.target_bytes and (nbytes := tensors.evict()) >= 0:
                freed += nbytes
        return freed


async def spill_under_pressure(tensors: Tensors, pressure: Pressure | None) -> None:
    """Evict tensors whenever the process is above the threshold, until cancelled."""
    while pressure is not None:
        await asyncio.sleep(pressure.interval_s)
        if pressure.taken() > pressure.spill_bytes:
            freed = await asyncio.to_thread(pressure.relieve, tensors)
            if freed:
                logger.info("daskevo: the process takes much memory: %d bytes of tensors were taken out of it", freed)
