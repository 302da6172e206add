"""The operations that a provider serves: each handler decodes a message and works on the host's shards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from daskevo.client.best_match import match_to_wire
from daskevo.client.local_peers import sight_to_wire
from daskevo.errors import CorruptRecord, RepositoryError
from daskevo.protocol.messages import DropAttempt, Put, Refer, Status, message_from_wire
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.replies import Refused, Reserved
from daskevo.provider.host import ShardHost
from daskevo.provider.inventory import OVERVIEW
from daskevo.provider.maintenance import audit
from daskevo.provider.put_receiver import Brought, Unseen
from daskevo.provider.scrub import RECOUNTING
from daskevo.provider.served_shard import ServedShard
from daskevo.provider.tensor_server import hand_out, hand_out_parts
from daskevo.provider.unreadable_models import forget_lost
from daskevo.types import ModelId, Tick
from daskevo.wire.tensor_framing import specs_from_wire
from daskevo.wire.transport import Handler, Replies, answer

logger = logging.getLogger(__name__)

THREADED_BYTES = 1 << 16
"""Size of a batch of queries, in bytes of vertex ids (4,096 vertices), from which it is answered in a thread, so that
other messages need not wait. Smaller batches take one or two milliseconds, and switching threads up to half of one."""


class ProviderHandlers:
    """The operations of one provider.

    Parameters
    ----------
    host:
        The host with the provider's shards.
    """

    def __init__(self, host: ShardHost) -> None:
        self._host = host

    def methods(self) -> dict[str, Handler]:
        """Return the handlers of messages, by operation."""
        host = self._host
        return {
            "open_shards": host.open_shards,
            "close_shards": host.close_shards,
            "pulse": host.pulse,
            "go_on_retiring": host.go_on_retiring,
            "together": partial(self.together, {"ask": self.ask, "refer": self.refer}),
            "ask": self.ask,
            "refer": self.refer,
            "read": self.read,
            "sight": self.sight,
            "make_room": self.make_room,
            "land": self.land,
            "room": self.room,
            "put": self.put,
            "match": self.match,
            "drop_attempts": self.drop_attempts,
            "audit": partial(audit, host),
            "forget_lost": partial(forget_lost, host),
            **{name: partial(function, host) for name, function in {**OVERVIEW, **RECOUNTING}.items()},
        }

    def local_methods(self) -> dict[str, Handler]:
        """Return the handlers of calls in this process, which pass tensors by reference."""
        return {
            **self.methods(),
            "together": partial(self.together, {"ask": self.ask, "refer": partial(self.refer, local=True)}),
            "refer": partial(self.refer, local=True),
            "look_at": self.look_at,
        }

    async def together(self, methods: Mapping[str, Handler], calls: Sequence[Any]) -> dict[str, Any]:
        """Carry out the calls ``[method, shard, arguments]`` of one message to several shards, concurrently."""
        asked = ((method, methods[method], {**more, "shard": shard}) for method, shard, more in calls)
        return {"replies": Replies(await asyncio.gather(*(answer(*call, "provider") for call in asked)))}

    async def ask(self, shard: int, messages: Sequence[Any]) -> list[Any] | None:
        """Carry out messages to one shard in order."""
        decoded = [message_from_wire(message) for message in messages]

        async def work(served: ServedShard) -> list[Any]:
            return [reply.to_wire() for reply in await served.ask(decoded)]

        return await self._host.with_shard(shard, work)  # type: ignore[no-any-return]

    async def refer(self, shard: int, message: Any, near: bool = False, local: bool = False) -> dict[str, Any] | None:
        """Reserve tensors of one owner and return them in the same answer; reserved tensors are not deleted."""
        decoded = message_from_wire(message)
        if not isinstance(decoded, Refer):
            raise CorruptRecord(f"a message 'refer' carries a {type(decoded).__name__}")

        async def work(served: ServedShard) -> dict[str, Any]:
            with self._host.tally.reservations.timed(0) as timed:
                (reply,) = await served.ask([decoded])
                answer = {"reply": reply.to_wire()}
                if isinstance(reply, Reserved):
                    timed.items = len(decoded.numbers)
                    numbers = decoded.numbers
                    answer |= await hand_out(served, reply.owner, reply.attempt, numbers, near=near, local=local)
            return answer

        return await self._host.with_shard(shard, work)  # type: ignore[no-any-return]

    async def read(self, shard: int, model: str, attempt: Any, parts: Sequence[Any]) -> dict[str, Any] | None:
        """Read parts of tensors that the caller has reserved."""

        async def work(served: ServedShard) -> dict[str, Any]:
            with self._host.tally.reads.timed(len(parts)):
                return await hand_out_parts(served, ModelId(model), Tick.parse(attempt), parts)

        return await self._host.with_shard(shard, work)  # type: ignore[no-any-return]

    async def look_at(self, shard: int, model: str, numbers: Sequence[int]) -> dict[str, Any] | None:
        """Read tensors without a reservation, in this process; they may have been deleted meanwhile."""

        async def work(served: ServedShard) -> dict[str, Any]:
            found = served.shard.state.references.published.get(ModelId(model))
            if found is None:
                raise CorruptRecord(f"tensors of {model!r} are wanted, of which none is stored", model_id=model)
            return await hand_out(served, ModelId(model), found, numbers, near=False, local=True)

        return await self._host.with_shard(shard, work)  # type: ignore[no-any-return]

    async def sight(self) -> dict[str, Any]:
        """Return what this process sees of the root, for clients that check whether they share its storage."""
        told = await asyncio.to_thread(sight_to_wire, self._host.root)
        return {**told, "quota_bytes": self._host.quota.quota_bytes}

    async def room(self, shard: int) -> list[int] | None:
        """Return what the quota leaves to writers that store files themselves: ``[bytes left, provider's share]``."""

        async def work(served: ServedShard) -> list[int] | None:
            return self._host.quota.remaining()

        return await self._host.with_shard(shard, work)  # type: ignore[no-any-return]

    async def make_room(
        self, shard: int, model: str, attempt: Any, nbytes: int, patience_s: float
    ) -> dict[str, Any] | None:
        """Reserve memory for the tensors of a coming put; ``granted`` says whether the writer may send them."""
        model_id = ModelId(model)

        async def work(served: ServedShard) -> dict[str, Any]:
            # Checked again by the put; here it spares the writer sending tensors that would be refused.
            self._host.quota.check(shard, served.place, model_id, nbytes)
            uploads = self._host.uploads
            return {"granted": await uploads.reserve(shard, model_id, Tick.parse(attempt), nbytes, patience_s)}

        return await self._host.with_shard(shard, work)  # type: ignore[no-any-return]

    async def land(
        self, shard: int, model: str, attempt: Any, specs: Sequence[Any], parts: Sequence[Any], frames: Sequence[Any]
    ) -> bool | None:
        """Receive some of the tensors of a coming put; return false if no memory is reserved for it."""
        named, model_id = specs_from_wire(specs), ModelId(model)

        async def work(served: ServedShard) -> bool:
            return await self._host.uploads.write(shard, model_id, Tick.parse(attempt), named, parts, frames)

        return await self._host.with_shard(shard, work)  # type: ignore[no-any-return]

    async def put(
        self,
        shard: int,
        message: Any,
        parts: Sequence[Any] = (),
        frames: Sequence[Any] | None = None,
        arrays: Mapping[int, Any] | None = None,
    ) -> dict[str, Any] | None:
        """Store, stage and publish a model; ``unseen`` in the answer says that its tensors have not arrived."""
        decoded = message_from_wire(message)
        if not isinstance(decoded, Put):
            raise CorruptRecord(f"a message 'put' carries a {type(decoded).__name__}")

        async def work(served: ServedShard) -> dict[str, Any]:
            with self._host.tally.puts.timed(0) as timed:
                try:
                    reply = await served.put(decoded, Brought(arrays, parts, frames))
                except Unseen as error:
                    return {"unseen": str(error)}  # no error for the caller: the writer sends its tensors again
                if not isinstance(reply, Refused):
                    timed.items = decoded.record.own_bytes
            return {"reply": reply.to_wire()}

        return await self._host.with_shard(shard, work)  # type: ignore[no-any-return]

    async def match(
        self, scope: str, questions: Sequence[Any], records: bool = False, status: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        """Return the best match of each query among this provider's models.

        Parameters
        ----------
        records:
            Whether to return the matched models' records too.
        status:
            ``[shard, model]``: if this provider serves that shard, the answer includes the model's status.
        """
        with self._host.tally.queries.timed(len(questions)):
            return await self._match(scope, questions, records, status)

    async def _match(
        self, scope: str, questions: Sequence[Any], records: bool, status: Sequence[Any] | None
    ) -> dict[str, Any]:
        standing = None
        if status is not None and status[0] in self._host.shards:
            # Runs beside the search: its check of the epoch waits for the disk.
            standing = asyncio.ensure_future(self.ask(status[0], [Status(ModelId(status[1])).to_wire()]))
        # In a thread also while the index is still being compiled, which takes seconds.
        if sum(len(ids) for ids, *_ in questions) >= THREADED_BYTES or not self._host.models.index.is_warm:
            found = await asyncio.to_thread(self._host.models.best_many, scope, questions)
        else:
            found = self._host.models.best_many(scope, questions)
        brought = {}
        if records:
            for match in found:
                record = None if match is None else self._record(match.model_id)
                if record is not None:
                    brought[record.model_id] = record.to_wire()
        standings = None if standing is None else await standing
        return {
            "matches": [match_to_wire(match) for match in found],
            "records": brought,
            "standing": standings[0] if standings else None,
        }

    def _record(self, model_id: ModelId) -> ModelRecord | None:
        # None if its shard has left since the search: the caller asks its new provider then.
        for served in self._host.shards.values():
            model = served.shard.state.models.get(model_id)
            if model is not None:
                return model.record
        return None

    async def drop_attempts(self, attempts: Sequence[Any]) -> int:
        """Release all references of settled attempts in all shards of this provider."""
        messages = [DropAttempt(model, Tick.parse(attempt)) for model, attempt in attempts]
        for number in list(self._host.shards):

            async def work(served: ServedShard) -> bool:
                await served.ask(messages)
                return True

            try:
                await self._host.with_shard(number, work)
            except RepositoryError as error:
                # The other shards still release theirs; the next audit does it for this one.
                logger.info("daskevo: shard %d keeps bits of attempts that are over: %s", number, error)
        return len(messages)
