"""Reserve tensors at their owners and read them, in one message per provider; drop reservations.

Owners decide independently: if one refuses, the others' reservations stay, and the caller decides what to do with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from daskevo.client.directory import ShardCall
from daskevo.client.local_peers import LocalPeer
from daskevo.client.run_script import run_script
from daskevo.client.session import Session
from daskevo.client.tensor_reader import Array, Gone, TensorSource, WantedTensors, arrived
from daskevo.errors import DaskevoError
from daskevo.protocol import scripts
from daskevo.protocol.messages import Refer
from daskevo.protocol.replies import Refused, Reserved, reply_from_wire
from daskevo.types import Attempt, ModelId


async def refer_all(
    session: Session,
    model_id: ModelId | None,
    attempt: Attempt,
    owners: Mapping[ModelId, Mapping[int, WantedTensors]],
    *,
    patient: bool = True,
) -> list[dict[int, Array] | Gone | DaskevoError]:
    """Reserve tensors at all their owners, in parallel, and read them.

    Parameters
    ----------
    model_id:
        The model that inherits the tensors; None for a reader's attempt.
    owners:
        Owner -> tensor number at the owner -> expected tensor.
    patient:
        Whether to wait the full time for providers that did not answer lately.

    Returns
    -------
    For each owner, in order: number -> value, read-only; or an error: `Gone` if a tensor is missing or differs from the
    expected one, ShardUnavailable if the shard did not answer in time.
    """
    calls, peers = [], []
    for owner, wanted in owners.items():
        message = Refer(owner, model_id, attempt, frozenset(wanted))
        shard = await session.directory.shard_of(owner)
        peers.append(await session.directory.local_peer(shard))
        near = {"near": True} if peers[-1] is not None else {}
        calls.append(ShardCall(shard, "refer", {"message": message.to_wire(), **near}, patient))
    answers = await session.directory.together(calls, timeout_s=session.timeout_s)
    results = await asyncio.gather(
        *(
            _referred(session, answer, call.shard, owner, wanted, peer)
            for answer, call, peer, (owner, wanted) in zip(answers, calls, peers, owners.items(), strict=True)
        ),
        return_exceptions=True,
    )
    # Errors of daskevo are for the caller to judge, who knows the other owners' results; others are mistakes in the
    # code.
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, (Gone, DaskevoError)):
            raise result
    return results  # type: ignore[return-value]


async def _referred(
    session: Session,
    answer: Any,
    shard: int,
    owner: ModelId,
    wanted: Mapping[int, WantedTensors],
    peer: LocalPeer | None,
) -> dict[int, Array]:
    if isinstance(answer, DaskevoError):
        raise answer
    reply = reply_from_wire(answer["reply"])
    if isinstance(reply, Refused):
        raise Gone(f"tensors of {owner!r} are {reply.reason}")
    if not isinstance(reply, Reserved):
        raise await session.missing(owner, "unknown")
    source = TensorSource(shard, owner, reply.attempt)
    return await arrived(session.directory, answer, source, wanted, peer=peer, timeout_s=session.timeout_s)


async def give_back(session: Session, model_id: ModelId | None, attempt: Attempt, owners: Iterable[ModelId]) -> None:
    """Carry out `scripts.give_back`."""
    await run_script(scripts.give_back(model_id, attempt, owners), session.carry_out)
