"""From requests to units of work: what has to be computed, what is known already, what is being computed.

Pure: no clock, no I/O. A unit is one Dask future. For one-shot evaluation the plan of a batch is a query per
provider, their reduction, and an evaluation per request that nobody has asked for before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from daskevo.search import BEST_MATCH, Request
from daskevo.types import ModelId


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


class Sharing(NamedTuple):
    """Requests sorted by who computes their result.

    Parameters
    ----------
    fresh:
        To be evaluated, in the order in which they were asked.
    known, waiting:
        Number of a request -> number of the request that has been answered, or is being evaluated, and computes the
        same.
    """

    fresh: tuple[Request, ...]
    known: Mapping[int, int]
    waiting: Mapping[int, int]


def identity(request: Request, model: Sequence[bytes]) -> str:
    """Name the training that a request asks for, within its run: the *training key*, apart from what is the run's.

    Equal for requests whose models are trained alike, with the same sequence, settings, end, repeat and model to
    continue. Choices without effect give different candidates with the same key; where inherited weights come from is
    no part of it, so a search does not train the same model twice with different luck.

    Parameters
    ----------
    model:
        What the candidate's model is to its training: its vertices' ids, which say no more than what weights it may
        take over, and all that they leave out.
    """
    digest = hashlib.blake2b(b"".join(model), digest_size=16)
    parts = [request.sequence, request.until_step, dict(request.training)]
    if request.repeat:
        parts.append(request.repeat)
    if request.continues is not None:
        parts.append(request.continues)
    digest.update(json.dumps(parts, sort_keys=True).encode())
    return digest.hexdigest()


def share(
    requests: Sequence[Request],
    identities: Mapping[int, str],
    done: Mapping[str, int],
    under_way: Mapping[str, int],
) -> Sharing:
    """Find the requests whose result is known or under way, those among `requests` included.

    Parameters
    ----------
    requests:
        In the order in which they were asked.
    identities:
        What each computes, by number (see :func:`identity`).
    done, under_way:
        Identity -> number of the request that has been answered, or is being evaluated.
    """
    known: dict[int, int] = {}
    waiting: dict[int, int] = {}
    fresh: dict[str, Request] = {}
    for request in requests:
        name = identities[request.number]
        if name in done:
            known[request.number] = done[name]
        elif under_way.get(name, request.number) != request.number:
            waiting[request.number] = under_way[name]
        elif name in fresh:
            waiting[request.number] = fresh[name].number
        else:
            fresh[name] = request
    return Sharing(tuple(fresh.values()), known, waiting)


def plan(
    requests: Sequence[Request], attempts: Mapping[int, int] | None = None, seconds: float | None = None
) -> tuple[Unit, ...]:
    """Make the units of a batch: one match for all requests that take the best one, and an evaluation each.

    Parameters
    ----------
    attempts:
        How often each has been submitted before, by number: a unit submitted again has another key.
    seconds:
        What a recent evaluation took.
    """
    attempts = attempts or {}
    matched = [request for request in requests if request.transfer and request.ancestor == BEST_MATCH]
    units: list[Unit] = []
    if matched:
        first = matched[0]
        key = f"match-{first.model_id}-{attempts.get(first.number, 0)}"
        units.append(Unit(key, "match", tuple(request.number for request in matched)))
    inputs = {request.number: (units[0].key,) for request in matched}
    for request in requests:
        key = evaluation_key(request.model_id, attempts.get(request.number, 0))
        units.append(Unit(key, "evaluate", (request.number,), inputs.get(request.number, ()), seconds))
    return tuple(units)


def evaluation_key(model_id: ModelId, attempt: int) -> str:
    """Return the key of an evaluation's unit: new for each submission, since Dask answers a key it knows from
    memory."""
    return f"evaluate-{model_id}-{attempt}"
