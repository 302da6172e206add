"""From requests to units of work: what has to be computed, what is known already, what is being computed.

Pure: no clock, no I/O. A unit is one Dask future. For one-shot evaluation the plan of a batch is a query per
provider, their reduction, and an evaluation per request that nobody has asked for before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from daskevo.search import BEST_MATCH, Request
from daskevo.types import ModelId, VertexId


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work.

    Parameters
    ----------
    key:
        Names the unit within the run, and its future on the cluster.
    kind:
        ``match``: one query to all providers for a batch of requests; ``evaluate``: inherit, train, score and put one.
    numbers:
        The requests it works for.
    inputs:
        Keys of the units whose results it needs.
    estimated_s:
        Seconds it will probably take on its worker; None = nothing to go by.
    """

    key: str
    kind: Literal["match", "evaluate"]
    numbers: tuple[int, ...]
    inputs: tuple[str, ...] = ()
    estimated_s: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Units to run, requests answered by an earlier one, and requests that wait for one under way.

    `known` and `waiting` map a request's number to the number of the request that computes the same.
    """

    units: tuple[Unit, ...]
    known: Mapping[int, int]
    waiting: Mapping[int, int]


def identity(request: Request, vertex_ids: Sequence[VertexId]) -> str:
    """Name what a request computes: equal for candidates with the same graph, sequence and end.

    Choices without effect give different candidates with the same graph; where their weights come from is not part of
    the identity, so a search does not train the same architecture twice with different luck.
    """
    digest = hashlib.blake2b(b"".join(vertex_ids), digest_size=16)
    digest.update(json.dumps([request.sequence, request.until_step], sort_keys=True).encode())
    return digest.hexdigest()


def plan(
    requests: Sequence[Request],
    identities: Mapping[int, str],
    done: Mapping[str, int],
    under_way: Mapping[str, int],
    *,
    attempts: Mapping[int, int] | None = None,
    seconds: float | None = None,
) -> Plan:
    """Share what can be shared among requests, and make units of the rest.

    Parameters
    ----------
    requests:
        In the order in which they were asked.
    identities:
        Of each request, by number (see :func:`identity`).
    done, under_way:
        Identity -> number of the request that has been answered, or is being evaluated.
    attempts:
        How often a request has been submitted before, by number: a unit submitted again has another key.
    seconds:
        What a recent evaluation took.
    """
    attempts = attempts or {}
    known: dict[int, int] = {}
    waiting: dict[int, int] = {}
    fresh: dict[str, Request] = {}
    for request in requests:
        name = identities[request.number]
        if name in done and done[name] != request.number:
            known[request.number] = done[name]
        elif name in under_way and under_way[name] != request.number:
            waiting[request.number] = under_way[name]
        elif name in fresh:
            waiting[request.number] = fresh[name].number
        else:
            fresh[name] = request
    matched = [request for request in fresh.values() if request.transfer and request.ancestor == BEST_MATCH]
    units: list[Unit] = []
    match: Unit | None = None
    if matched:
        first = matched[0]
        key = f"match-{first.model_id}-{attempts.get(first.number, 0)}"
        match = Unit(key, "match", tuple(request.number for request in matched))
        units.append(match)
    for request in fresh.values():
        units.append(
            Unit(
                evaluation_key(request.model_id, attempts.get(request.number, 0)),
                "evaluate",
                (request.number,),
                (match.key,) if match is not None and request in matched else (),
                seconds,
            )
        )
    return Plan(tuple(units), known, waiting)


def evaluation_key(model_id: ModelId, attempt: int) -> str:
    """Return the key of an evaluation's unit: new for each submission, since Dask answers a key it knows from
    memory."""
    return f"evaluate-{model_id}-{attempt}"
