"""Best matches over all providers: send one batch of queries to each, and take the maximum of the answers.

The result is exact, because matches are totally ordered. If a provider does not answer in time, or a shard
is not served, the answer is partial and says so.
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
"""Longest wait for one provider's matches, in seconds: for an evaluation, a shorter prefix is better than waiting for a
stuck provider."""


class Question(Query):
    """A query of the index that can be sent: made of a graph, encoded, and decoded at the provider."""

    __slots__ = ()

    @classmethod
    def of(cls, graph: ArchitectureGraph, by: str = "vertex", exclude: Iterable[ModelId] = ()) -> Question:
        """Make the query of a graph, with vertices weighed by ``"vertex"`` (1 each) or ``"bytes"``."""
        weighed = weights(graph, by)  # type: ignore[arg-type]
        edges = [(edge.source, target) for target, vertex in enumerate(graph.vertices) for edge in vertex.edges]
        return cls(graph.ids, None if by == "vertex" else weighed, frozenset(exclude), pack_edges(edges))

    def to_wire(self) -> list[Any]:
        # One bytes object, since msgpack would pack each id by itself, thousands for a batch of large graphs.
        ids = self.ids if isinstance(self.ids, bytes) else b"".join(self.ids)
        return [ids, None if self.weights is None else list(self.weights), sorted(self.exclude), self.edges]

    @classmethod
    def from_wire(cls, value: Any) -> Question:
        ids, weighed, exclude, edges = value
        return cls(ids, None if weighed is None else list(weighed), frozenset(exclude), edges)


@dataclass(frozen=True)
class MatchAnswer:
    """Answer of the providers to one batch of queries.

    Parameters
    ----------
    matches:
        The best match of each query, or None.
    records:
        Records of the best matches, by model, if they were requested.
    silent:
        Provider or shard that is missing in the answer -> why.
    standing:
        Status of the model that was asked for, if its provider answered.
    """

    matches: tuple[PrefixMatch | None, ...]
    records: Mapping[ModelId, ModelRecord]
    silent: Mapping[str, str]
    standing: Standing | None = None


def match_to_wire(match: PrefixMatch | None) -> tuple[Any, ...] | None:
    """Encode a match for msgpack, as tuples, which arrive as tuples and compare like matches."""
    return None if match is None else tuple(match)


def match_from_wire(value: Any) -> PrefixMatch | None:
    """Decode a match that `match_to_wire` encoded."""
    return None if value is None else PrefixMatch(value[0], value[1], Tick.parse(value[2]), ModelId(value[3]))


def best_of(answers: Iterable[Sequence[Any]]) -> tuple[PrefixMatch | None, ...]:
    """Reduce the encoded answers of all providers to the best match of each query."""
    best: Sequence[Any] = ()
    for place, answer in enumerate(answers):
        # Encoded matches compare like matches: only the winners are decoded, not every provider's answers.
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
    """Send queries to all providers at once, and return the best match of each.

    Parameters
    ----------
    timeout_s:
        Longest wait for one provider, in seconds; the answer is partial without it.
    records:
        Whether answers include the records of matches, which saves a round trip for few queries.
    status:
        A model whose status its provider returns in the same message; None: no model.
    """
    table = await directory.table()
    # Once only: waiting for shards without a provider would delay evaluations, which can do with a partial answer.
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
        # Providers have changed: a late one may have a new address, or its shards have moved. Try once more.
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
        # Computed again: that a provider has died, and its memory with it, may have become known only by the calls.
        {**silent, **left_out(await directory.table()), **late},
        Standing.from_wire(standings[0]) if standings else None,
    )


def left_out(table: ShardTable) -> dict[str, str]:
    """Return the shards whose models, or earlier models, are missing in answers -> why."""
    return _unserved(table) | _lost(table)


def _unserved(table: ShardTable) -> dict[str, str]:
    return {
        f"shard {shard}": table.troubles.get(shard, "no provider serves it")
        for shard, place in table.places.items()
        if place is None
    }


def _lost(table: ShardTable) -> dict[str, str]:
    """Return shards of a repository in memory that were lost with their provider, and began again empty -> why."""
    return {
        f"shard {shard}": f"its models from before went with {table.lost_with[shard]}, which held them in memory"
        for shard, place in table.places.items()
        if place is not None and shard in table.lost
    }
