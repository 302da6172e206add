"""Turn requests into units of work, and find requests whose result is known or already being computed.

Pure: no clock, no I/O. A unit is one Dask future. A batch of evaluations is planned as one query to all providers and
one evaluation for each request whose training nobody has asked for before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from daskevo.search import BEST_MATCH, Request


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
        Numbers of the requests that it serves.
    inputs:
        Keys of the units whose results it needs.
    estimated_s:
        Estimated seconds on its worker; None if there is no estimate.
    """

    key: str
    kind: Literal["match", "evaluate"]
    numbers: tuple[int, ...]
    inputs: tuple[str, ...] = ()
    estimated_s: float | None = None


class Sharing(NamedTuple):
    """Requests sorted by where their result comes from.

    Parameters
    ----------
    fresh:
        To be evaluated, in the order in which they were asked.
    known, waiting:
        Number of a request -> number of the request with the same training that has been reported (`known`) or is being
        evaluated (`waiting`).
    """

    fresh: tuple[Request, ...]
    known: Mapping[int, int]
    waiting: Mapping[int, int]


def identity(request: Request, model: Sequence[bytes]) -> str:
    """Return the *training key*: a name, unique within the run, for the training that a request asks for.

    Requests have equal keys if their models are trained alike, with the same sequence, settings, end, repeat and model
    to continue. Candidates that differ only in choices without effect have the same key. The source of inherited
    weights is not part of it, so a search does not train the same model again with other inherited weights.

    Parameters
    ----------
    model:
        What training depends on in the model: its vertex ids (which only say what weights it may take over), and
        everything that they leave out.
    """
    digest = hashlib.blake2b(b"".join(model), digest_size=16)
    parts = [request.sequence, request.until_step, dict(request.training)]
    # Left out where they say nothing, so that keys in older records stay what they are.
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
    """Find the requests whose result is known or being computed, also by another one of `requests`.

    Parameters
    ----------
    requests:
        In the order in which they were asked.
    identities:
        Training key of each, by number (see :func:`identity`).
    done, under_way:
        Training key -> number of the request that has been reported, or is being evaluated.
    """
    known: dict[int, int] = {}
    waiting: dict[int, int] = {}
    fresh: dict[str, Request] = {}
    for request in requests:
        name = identities[request.number]
        # A finished result first, then a running one, then an equal request of the same batch.
        if name in done:
            known[request.number] = done[name]
        # A request that is submitted again finds its own number there.
        elif under_way.get(name, request.number) != request.number:
            waiting[request.number] = under_way[name]
        elif name in fresh:
            waiting[request.number] = fresh[name].number
        else:
            fresh[name] = request
    return Sharing(tuple(fresh.values()), known, waiting)


def plan(
    requests: Sequence[Request],
    attempts: Mapping[int, int] | None = None,
    seconds: float | None = None,
    session: int = 1,
) -> tuple[Unit, ...]:
    """Make the units of a batch: one match for all requests that inherit from the best match, one evaluation each.

    Parameters
    ----------
    attempts:
        How often each was submitted before, by number: a unit that is submitted again gets another key.
    seconds:
        Mean duration of recent evaluations, as the estimate.
    session:
        Number of the run's session, which is part of the keys.
    """
    attempts = attempts or {}
    matched = [request for request in requests if request.transfer and request.ancestor == BEST_MATCH]
    units: list[Unit] = []
    if matched:
        first = matched[0]
        key = _key("match", first, session, attempts)
        units.append(Unit(key, "match", tuple(request.number for request in matched)))
    inputs = {request.number: (units[0].key,) for request in matched}
    for request in requests:
        key = _key("evaluate", request, session, attempts)
        units.append(Unit(key, "evaluate", (request.number,), inputs.get(request.number, ()), seconds))
    return tuple(units)


def _key(kind: str, request: Request, session: int, attempts: Mapping[int, int]) -> str:
    """Return the key of a unit; each attempt in each session has its own, because Dask returns the old result for a key
    that it still knows."""
    return f"{kind}-{request.model_id}-{session}-{attempts.get(request.number, 0)}"
