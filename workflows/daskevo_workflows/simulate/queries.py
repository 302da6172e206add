"""Best matches asked for by many at a time, without a cluster: paper 000, figure 5."""

from __future__ import annotations

from typing import NamedTuple

from daskevo.errors import InvalidInput
from daskevo_workflows.simulate.clock import Clock, Host, Process, Server
from daskevo_workflows.simulate.cluster import TRAINERS_PER_PROVIDER
from daskevo_workflows.simulate.costs import MeasuredCosts


class Answered(NamedTuple):
    """What came of so many queries.

    Parameters
    ----------
    workers, providers:
        Who asked, and who answered.
    seconds:
        Until the last answer.
    per_s:
        Queries answered per second, all together.
    mean_s:
        Of one query, from the call to its answer.
    busy_share:
        Of the busiest provider's time.
    """

    workers: int
    providers: int
    seconds: float
    per_s: float
    mean_s: float
    busy_share: float


def queries(
    workers: int,
    costs: MeasuredCosts,
    *,
    count: int = 10_000,
    batch: int = 1,
    providers: int | None = None,
    central: int | None = None,
    shared_cores: int | None = None,
) -> Answered:
    """Have workers ask for best matches, each its share of `count`, one after the other.

    Parameters
    ----------
    batch:
        Questions in one message.
    providers:
        One for each four workers when None.
    central:
        Models that one server looks at for each question, instead of providers with an index.
    shared_cores:
        Cores that all share; None: each has its own.

    Raises
    ------
    InvalidInput
        If there is nobody to ask or answer, or nothing of it costs anything.
    """
    if workers < 1 or count < 1 or batch < 1 or (providers is not None and providers < 1):
        raise InvalidInput(f"workers={workers}, count={count}, batch={batch}: use 1 or more")
    clock = Clock()
    host = None if shared_cores is None else Host(shared_cores)
    answering = 1 if central is not None else -(-workers // TRAINERS_PER_PROVIDER) if providers is None else providers
    servers = [Server(host) for _ in range(answering)]
    more = batch - 1
    ask_s = costs.ask_provider_s * answering + costs.ask_question_s * more
    answer_s = costs.scan_s * central * batch if central is not None else costs.query_s + costs.question_s * more
    waited: list[float] = []

    def asking(number: int) -> Process:
        own = Server(host)
        for _ in range(count // workers + (number < count % workers)):
            since = clock.now
            yield own.take(clock.now, ask_s)
            yield clock.now + costs.latency_s
            yield max(server.take(clock.now, answer_s) for server in servers)
            yield clock.now + costs.latency_s
            waited.append(clock.now - since)

    for number in range(workers):
        clock.start(asking(number))
    while clock.step():
        pass
    if not clock.now:
        raise InvalidInput("by these costs queries take no time at all: measure them")
    busy = max(server.busy_s for server in servers) / clock.now
    return Answered(workers, answering, clock.now, batch * count / clock.now, sum(waited) / len(waited), busy)
