"""Best matches over all providers: scatter one batch of queries, take the maximum of the answers.

Exact, because matches are totally ordered (prefix.md). Providers that don't answer in time, and shards that nobody
serves, make the answer partial, and it says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daskevo.client.directory import Directory
from daskevo.graph import ArchitectureGraph, weights
from daskevo.index import PrefixMatch, Query, pack_edges
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.replies import Standing
from daskevo.protocol.shard_table import ShardTable
from daskevo.types import ModelId, Tick

MATCH_TIMEOUT_S = 5.0
"""Longest wait for one provider's matches: an evaluation rather inherits a little less than waits for a stuck one."""


class Question(Query):
    """A query of the index that travels: made of a graph, sent, read again where it is answered."""

    __slots__ = ()

    @classmethod
    def of(cls, graph: ArchitectureGraph, by: str = "vertex", exclude: Iterable[ModelId] = ()) -> Question:
        """Make the query of a graph, its vertices weighed by ``"vertex"`` or ``"bytes"``."""
        weighed = weights(graph, by)  # type: ignore[arg-type]
        edges = [(edge.source, target) for target, vertex in enumerate(graph.vertices) for edge in vertex.edges]
        return cls(graph.ids, None if by == "vertex" else weighed, frozenset(exclude), pack_edges(edges))

    def to_wire(self) -> list[Any]:
        ids = self.ids if isinstance(self.ids, bytes) else b"".join(self.ids)
        return [ids, None if self.weights is None else list(self.weights), sorted(self.exclude), self.edges]

    @classmethod
    def from_wire(cls, value: Any) -> Question:
        ids, weighed, exclude, edges = value
        return cls(ids, None if weighed is None else list(weighed), frozenset(exclude), edges)


@dataclass(frozen=True)
class MatchAnswer:
    """What the providers found for one batch of queries.

    Parameters
    ----------
    matches:
        The best match of each query, or None.
    records:
        Records of the winners, by model, as far as they were asked for.
    silent:
        What is missing in the answer: provider or shard -> why.
    standing:
        Where the model stands that was asked for, if its home answered.
    """

    matches: tuple[PrefixMatch | None, ...]
    records: Mapping[ModelId, ModelRecord]
    silent: Mapping[str, str]
    standing: Standing | None = None


def match_to_wire(match: PrefixMatch | None) -> tuple[Any, ...] | None:
    """Return a match as msgpack carries it: tuples, which arrive as such and compare as matches do."""
    return None if match is None else tuple(match)


def match_from_wire(value: Any) -> PrefixMatch | None:
    """Read what `match_to_wire` wrote."""
    return None if value is None else PrefixMatch(value[0], value[1], Tick.parse(value[2]), ModelId(value[3]))


def best_of(answers: Iterable[Sequence[Any]]) -> tuple[PrefixMatch | None, ...]:
    """Reduce the answers of all providers, as `match_to_wire` wrote them: the best match of each query."""
    best: Sequence[Any] = ()
    for place, answer in enumerate(answers):
        best = [_better(one, other) for one, other in zip(best, answer, strict=True)] if place else answer
    return tuple(map(match_from_wire, best))


def _better(one: Any, other: Any) -> Any:
    return other if one is None or (other is not None and other > one) else one


async def best_matches(
    directory: Directory,
    scope: str,
    questions: Sequence[Question],
    *,
    timeout_s: float,
    records: bool = False,
    status: ModelId | None = None,
) -> MatchAnswer:
    """Ask all providers at once.

    Parameters
    ----------
    timeout_s:
        Longest wait for one provider; who is later makes the answer partial.
    records:
        Whether each answer brings the record of its match (saves a round trip for few queries).
    status:
        A model whose home says in the same message where it stands.
    """
    table = await directory.table()
    if _unserved(table):
        table = await directory.refresh()
    silent = left_out(table)
    question = {
        "scope": scope,
        "questions": [question.to_wire() for question in questions],
        "records": records,
        "status": None if status is None else [await directory.shard_of(status), status],
    }
    timeout_s = min(timeout_s, MATCH_TIMEOUT_S)
    asked = await directory.providers()
    answers, late = await directory.everywhere("match", timeout_s=timeout_s, patient=False, **question)
    if late and await directory.providers() != asked:
        # Their shards are opened elsewhere by now, or they are at another address: one more try by the new table.
        again, late = await directory.everywhere("match", timeout_s=timeout_s, patient=False, **question)
        answers |= again
    found = [answer["matches"] for answer in answers.values()]
    matches = best_of(found) if found else (None,) * len(questions)
    winners = {match.model_id for match in matches if match is not None}
    standings = [answer["standing"] for answer in answers.values() if answer["standing"] is not None]
    return MatchAnswer(
        matches,
        {
            ModelId(model_id): ModelRecord.from_wire(record)
            for answer in answers.values()
            for model_id, record in answer["records"].items()
            if model_id in winners
        },
        # A provider that died is known to have taken its memory with it only once it gave no answer.
        {**silent, **left_out(await directory.table()), **late},
        Standing.from_wire(standings[0]) if standings else None,
    )


def left_out(table: ShardTable) -> dict[str, str]:
    """Return shards whose models, or those from before, are in no answer -> why."""
    return _unserved(table) | _lost(table)


def _unserved(table: ShardTable) -> dict[str, str]:
    return {
        f"shard {shard}": table.troubles.get(shard, "no provider serves it")
        for shard, place in table.places.items()
        if place is None
    }


def _lost(table: ShardTable) -> dict[str, str]:
    """Shards of a repository in memory that went with their provider: what is served there now began empty."""
    return {
        f"shard {shard}": f"its models from before went with {table.lost_with[shard]}, which held them in memory"
        for shard, place in table.places.items()
        if place is not None and shard in table.lost
    }
