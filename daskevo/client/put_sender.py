"""Send a put to the model's shard: tensors by the name of a written file, by reference, or in messages of 48 MB."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from daskevo.client.put_payload import Payload
from daskevo.client.quota_folder import LimitedFolder
from daskevo.client.session import Session
from daskevo.errors import ClusterError
from daskevo.protocol.messages import Put
from daskevo.protocol.replies import Reply, reply_from_wire
from daskevo.store.pack import raw
from daskevo.store.shard_segments import ShardSegments
from daskevo.types import ModelId
from daskevo.wire.tensor_framing import Part, cut, few_at_once, frames, specs_to_wire
from daskevo.wire.transport import Frames, NoAnswer

_TRIES = 3
"""Most times that a put is sent with its tensors, if the provider has not received them all."""
_UNCOUNTED_BYTES = 1 << 20
"""Largest put that is sent in one message without reserving memory first: asking would take as long as sending."""
_ASK_AGAIN_S = 1.0
"""Longest time that a provider waits for memory before it answers that there is none yet, in seconds. The writer asks
again, so that the provider notices writers that have gone."""


async def folder_of_home(session: Session, model_id: ModelId) -> ShardSegments | None:
    """Return the folder to write a model's segment to, if the shard's provider is on this host and sees the root."""
    shard = await session.directory.shard_of(model_id)
    peer = await session.directory.local_peer(shard)
    if peer is None:
        return None
    if peer.quota_bytes is None:
        return peer.root.shard(shard)
    remaining = await session.directory.call(shard, "room", timeout_s=session.timeout_s)
    return LimitedFolder(peer.root, shard, remaining, peer.quota_bytes)


async def send_put(session: Session, message: Put, payload: Payload, timeout_s: float) -> Reply:
    """Send a put with its tensors to the model's shard, and return the reply.

    Parameters
    ----------
    timeout_s:
        Longest wait for an answer to one message, in seconds; a transfer of many messages may take longer.

    Raises
    ------
    ShardUnavailable
        If the shard's provider did not answer in time.
    ClusterError
        If it has not received all tensors after several tries.
    """
    shard = await session.directory.shard_of(message.record.model_id)
    in_file = payload.folder is not None or not payload.tensors
    reason = ""
    for _ in range(_TRIES):
        answer = await session.directory.call(
            shard,
            "put",
            timeout_s=timeout_s,
            message=message.to_wire(),
            bring=None if in_file else lambda address: _bring(session, address, shard, payload, timeout_s),
        )
        if "unseen" not in answer:
            return reply_from_wire(answer["reply"])
        # The provider does not see the file, or the shard has moved to another host: send all tensors.
        reason, in_file = answer["unseen"], False
    raise ClusterError(f"home of {message.record.model_id!r} did not get its tensors: {reason}")


async def _bring(session: Session, address: str, shard: int, payload: Payload, timeout_s: float) -> Mapping[str, Any]:
    """Send all but the last message of a put's tensors; return the arguments that the put itself carries.

    Raises
    ------
    NoAnswer
        If a message was not answered, or the provider doesn't serve the shard: the next try sends all again.
    ProviderFull
        If the put exceeds the provider's memory, or the transfers that hold it make no progress.
    """
    if session.transport.is_here(address):
        return {"arrays": {number: _read_only(array) for number, array in payload.tensors.items()}}
    # The put itself carries the last message's tensors, which saves a round trip, and the only one for small models.
    sizes = {number: array.nbytes for number, array in payload.tensors.items()}
    *first, last = cut(sizes)

    async def ask(operation: str, **more: Any) -> Any:
        answer = await session.transport.provider(
            address,
            operation,
            timeout_s=timeout_s,
            shard=shard,
            model=payload.model_id,
            attempt=list(payload.attempt),
            **more,
        )
        if answer is None:
            raise NoAnswer(address, operation, f"shard {shard} isn't served there any more")
        return answer

    nbytes = sum(sizes.values())
    if first or nbytes > _UNCOUNTED_BYTES:
        # Ask before sending: bytes of waiting transfers would take memory from those that could go on.
        while not (await ask("make_room", nbytes=nbytes, patience_s=min(_ASK_AGAIN_S, timeout_s / 2)))["granted"]:
            pass
    specs = specs_to_wire(payload.own)

    async def carried(parts: Sequence[Part]) -> dict[str, Any]:
        found = await asyncio.to_thread(
            frames, parts, lambda part: raw(payload.tensors[part.number])[part.start : part.stop]
        )
        return {"parts": [list(part) for part in parts], "frames": Frames(found)}

    async def send(parts: Sequence[Part]) -> None:
        # The reserved memory may have been given to others if this writer was silent for too long.
        if not await ask("land", specs=specs, **await carried(parts)):
            raise NoAnswer(address, "land", "the memory reserved for it was given to others")

    await few_at_once(first, send)
    return await carried(last)


def _read_only(array: Any) -> Any:
    # A view: the caller's own array stays writable, and the repository's can't be written to through this one.
    found = array[...]
    found.flags.writeable = False
    return found
