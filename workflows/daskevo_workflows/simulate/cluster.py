"""The simulated cluster: who works where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daskevo_workflows.simulate.clock import Host, Server
from daskevo_workflows.simulate.costs import MeasuredCosts
from daskevo_workflows.simulate.outcome import SimulatedLoad

TRAINERS_PER_PROVIDER = 4
"""As in paper 000, section 5.4: a node has a provider and four trainers."""


def heartbeats_per_s(workers: int) -> float:
    """Return how many heartbeats a scheduler of Dask gets per second from so many workers, all together.

    By `distributed.scheduler.heartbeat_interval`: the more there are, the less often each says something.
    """
    interval_s = 0.5 if workers <= 10 else 1.0 if workers < 50 else 2.0 if workers < 200 else workers / 100 + 1
    return workers / interval_s


@dataclass(frozen=True)
class Layout:
    """Who is there.

    Parameters
    ----------
    trainers, providers:
        How many.
    shared_cores:
        Cores that all processes share, as on one machine; 1 where all are threads of one Python process; None: each has
        cores of its own.
    """

    trainers: int
    providers: int
    shared_cores: int | None = None


class Cluster:
    """Servers of a layout: the search's process, the scheduler, providers and trainers."""

    def __init__(self, layout: Layout, costs: MeasuredCosts) -> None:
        host = None if layout.shared_cores is None else Host(layout.shared_cores)
        workers = layout.trainers + layout.providers
        looks = costs.look_s * workers
        self.controller = Server(host, looks)
        # The look is the scheduler's work; the search's process waits for it.
        self.scheduler = Server(host, looks + costs.heartbeat_s * heartbeats_per_s(workers))
        self.providers = [Server(host) for _ in range(layout.providers)]
        self.trainers = [Server(host) for _ in range(layout.trainers)]
        self.files = Server(host)

    def loads(self, runtime_s: float, evaluations: int) -> Sequence[SimulatedLoad]:
        """Return who had how much to do, the busiest first."""
        servers = {
            "search's process": self.controller,
            "scheduler and coordinator": self.scheduler,
            "busiest provider": max(self.providers, key=lambda provider: provider.busy_s),
            "central server": self.files,
        }
        loads = [
            SimulatedLoad(name, server.busy_s / runtime_s, evaluations / server.busy_s, server.longest_wait_s)
            for name, server in servers.items()
            if server.busy_s
        ]
        return sorted(loads, key=lambda load: -load.share)
