"""Session of one process with one repository: attempts, records, status and labels, over any transport.

Inheriting, putting and reading are in modules of their own, which use the session. It is shared by all tasks of a
process, so calls that begin an attempt name its holder.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeVar, cast

from daskevo.client.deferred_messages import Outbox, end, send_drops
from daskevo.client.directory import CALL_TIMEOUT_S, Directory, ShardCall
from daskevo.client.query_batcher import QueryBatcher
from daskevo.errors import (
    AttemptOver,
    CorruptRecord,
    DaskevoError,
    ModelLost,
    ModelRetired,
    RepositoryError,
    ShardDamaged,
    ShardUnavailable,
    UnknownModel,
)
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.holders import ClientHolder, Holder
from daskevo.protocol.messages import (
    Drop,
    Hold,
    Message,
    Open,
    Release,
    ReleaseLabel,
    Retire,
    Status,
)
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.replies import LabelGone, Labelled, Opened, Refused, Reply, Standing, reply_from_wire
from daskevo.protocol.steps import End, EndInBackground, Step, Together
from daskevo.types import Attempt, ModelId, Tick
from daskevo.wire.transport import Transport

R = TypeVar("R", bound=Reply)

_HOLDS = 5
"""Most attempts to add a label, each with a new tick, needed if the coordinator is replaced meanwhile."""
_RECONNECTED_S = 0.1
"""Interval at which a client that the scheduler doesn't know (yet) asks again, in seconds."""


class Caller(NamedTuple):
    """The holder of attempts that are begun, and the key of its Dask task (text or tuple; None for a client)."""

    holder: Holder
    key: Any = None


class Session:
    """Access of one process to one repository.

    Parameters
    ----------
    transport:
        Calls coordinator and providers.
    timeout_s:
        Longest wait of one step for a shard, in seconds.
    directory:
        The shard table; a new one when None.

    Attributes
    ----------
    outbox:
        Messages that are sent without waiting for an answer.
    query_batcher:
        Batches the queries of this process.
    """

    reads_without_reserving = False
    """Whether reading reserves nothing: true for a root that is read without a cluster, where nothing is changed."""

    at_rest = False
    """Whether no cluster has the repository open, so that no file of it has a writer."""

    def __init__(self, transport: Transport, timeout_s: float, directory: Directory | None = None) -> None:
        self.transport = transport
        self.timeout_s = timeout_s
        self.directory = directory or Directory(transport)
        self.outbox = Outbox(self.directory)
        self.query_batcher = QueryBatcher(self.directory)

    def within(self, timeout_s: float) -> Self:
        """Return the same session with another time limit."""
        # Shallow, so that all copies share table, outbox and batches of queries.
        other = copy.copy(self)
        other.timeout_s = timeout_s
        return other

    async def send(self, message: Message, *expected: type[R], patient: bool = True) -> R | Refused:
        """Send one message to its addressee's shard; the reply is one of `expected` or a refusal.

        Without `patient`, a provider that did not answer lately is given `SILENT_TIMEOUT_S` only.

        Raises
        ------
        ShardUnavailable
            If no provider answered in time.
        """
        model_id = message.addressee
        if model_id is None:
            raise TypeError(f"{type(message).__name__} goes to every shard")
        shard = await self.directory.shard_of(model_id)
        (reply,) = await self.directory.ask(shard, [message], self.timeout_s, patient=patient)
        return _expect(reply, message, *expected)

    async def send_together(
        self, messages: Sequence[Message], patient: Sequence[bool] | None = None
    ) -> list[Reply | DaskevoError]:
        """Send messages to their addressees' shards, joined into one per provider; errors are returned, not raised.

        `patient` has for each message the argument of `send`.
        """
        calls = []
        for message, waits in zip(messages, patient or (True,) * len(messages), strict=True):
            if message.addressee is None:
                raise TypeError(f"{type(message).__name__} goes to every shard")
            shard = await self.directory.shard_of(message.addressee)
            calls.append(ShardCall(shard, "ask", {"messages": [message.to_wire()]}, waits))
        answers = await self.directory.together(calls, timeout_s=self.timeout_s)
        return [answer if isinstance(answer, DaskevoError) else reply_from_wire(answer[0]) for answer in answers]

    async def begin(self, caller: Caller, model_id: ModelId | None) -> Attempt:
        """Begin an attempt to make a model (None: to read one).

        If the answer is lost, the caller begins another attempt. The first one stays live until its holder ends; that
        costs an entry in the coordinator's table only, since nothing is reserved under it.

        Raises
        ------
        AttemptOver
            If the holder is not live: the scheduler considers its task or client ended.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout_s
        while True:
            reply = await self.transport.coordinator(
                "begin", timeout_s=CALL_TIMEOUT_S, holder=caller.holder.to_wire(), model=model_id, key=caller.key
            )
            # A client that asks and is unknown has lost its connection, and Dask is connecting it again. A task that
            # is unknown has ended for good.
            if reply is not None or not isinstance(caller.holder, ClientHolder) or loop.time() > deadline:
                break
            await asyncio.sleep(_RECONNECTED_S)
        if reply is None:
            raise AttemptOver(
                f"{caller.holder} wants to begin an attempt, but has ended for the scheduler: "
                "its task was cancelled or given to another worker, or its client has left",
                model_id=model_id,
            )
        return Tick.parse(reply)

    async def end(self, attempt: Attempt, *, settled: bool) -> None:
        """End an attempt; if the message is lost, the attempt ends with its holder.

        Parameters
        ----------
        settled:
            Whether nothing of it is left to clean up; otherwise the coordinator settles it.
        """
        await end(self.directory, [attempt], settled=settled)

    async def tick(self) -> Tick:
        """Return a new tick."""
        return Tick.parse(await self.transport.coordinator("tick", timeout_s=CALL_TIMEOUT_S))

    async def open(self, model_id: ModelId, *, patient: bool = True) -> ModelRecord:
        """Return the record of a published model; `patient` as in `send`.

        Raises
        ------
        UnknownModel, ModelRetired
        """
        return await self.opened(model_id, await self.send(Open(model_id), Opened, patient=patient))

    async def opened(self, model_id: ModelId, reply: Reply) -> ModelRecord:
        """Return the record in the answer to `Open`, or raise the errors of `open`."""
        found = _expect(reply, Open(model_id), Opened)
        if isinstance(found, Refused):
            raise await self.missing(model_id, found.reason)
        return found.record

    async def standing(self, model_id: ModelId) -> Standing:
        """Return the status of a model in any state, also of an unknown one."""
        reply = await self.send(Status(model_id), Standing)
        if isinstance(reply, Refused):
            raise CorruptRecord(f"the status of {model_id!r} was refused: {reply.reason}", model_id=model_id)
        return reply

    async def hold(self, model_id: ModelId, label: str) -> tuple[str, ...]:
        """Add a label; return the model's labels."""
        reply: Labelled | Refused = Refused("over")
        for _ in range(_HOLDS):
            if isinstance(reply, Refused) and reply.reason == "over":
                # Another coordinator has opened the shard since the tick was issued: take a new one.
                reply = await self.send(Hold(model_id, label, await self.tick()), Labelled)
        return await self._labels(model_id, reply)

    async def release(self, model_id: ModelId, label: str) -> tuple[str, ...]:
        """Remove a label and return the remaining ones; removing the last one retires the model."""
        return await self._label(Release(model_id, label, await self.tick()))

    async def retire(self, model_id: ModelId) -> tuple[str, ...]:
        """Remove all labels with one tick; a model that is lost with its provider's memory has none."""
        try:
            return await self._label(Retire(model_id, await self.tick()))
        except ModelLost:
            return ()

    async def _label(self, message: Release | Retire) -> tuple[str, ...]:
        return await self._labels(message.model, await self.send(message, Labelled))

    async def _labels(self, model_id: ModelId, reply: Labelled | Refused) -> tuple[str, ...]:
        if isinstance(reply, Refused):
            raise await self.missing(model_id, reply.reason)
        return reply.labels

    async def release_label(self, label: str) -> tuple[tuple[ModelId, ...], tuple[ModelId, ...]]:
        """Remove a label from all models with one tick.

        Returns
        -------
        Models that had the label, and those of them that had no other.

        Raises
        ------
        ShardDamaged, ShardUnavailable
            If a shard could not be asked; all other shards have removed the label.
        """
        # One tick for all shards: releasing again removes no label that was added after the first time.
        message = ReleaseLabel(label, await self.tick())
        shards = range((await self.directory.table()).shards)
        results = await asyncio.gather(
            *(self.directory.ask(shard, [message], self.timeout_s) for shard in shards), return_exceptions=True
        )
        replies = [result for result in results if not isinstance(result, BaseException)]
        for error in (result for result in results if isinstance(result, BaseException)):
            if not isinstance(error, (ShardDamaged, ShardUnavailable)):
                raise error
            # The same class with the same facts, so that callers that handle a damaged shard handle this one, too.
            raise type(error)(
                f"{label!r} was released on {len(replies)} of {len(shards)} shards; release it again when the others "
                f"are back: {error.message}",
                **error.facts,
            ) from error
        gone = [_expect(reply, message, LabelGone) for (reply,) in replies]
        found = [reply for reply in gone if isinstance(reply, LabelGone)]
        return (
            tuple(model for reply in found for model in reply.released),
            tuple(model for reply in found for model in reply.retiring),
        )

    async def missing(self, model_id: ModelId, reason: str) -> RepositoryError:
        """Return the error for a model that is not published, given the reason of its shard."""
        if reason in ("retiring", "retired"):
            return ModelRetired(
                f"{model_id!r} has been retired: its last label was released. Its lineage can still be asked for",
                model_id=model_id,
            )
        table = await self.directory.refresh()
        shard = shard_of(model_id, table.shards)
        if shard in table.lost:
            provider = table.lost_with[shard]
            return ModelLost(
                f"{model_id!r} is not there: if it was stored, it went with the memory of {provider}, a provider that "
                "has died or left. With a root folder models survive their provider",
                model_id=model_id,
                provider=provider,
            )
        return UnknownModel(
            f"there is no model {model_id!r} in this repository; repository.models() lists them", model_id=model_id
        )

    async def carry_out(self, step: Step) -> Any:
        """Carry out those steps of the protocol's scripts that are alike in all of them: drops and ends of attempts."""
        match step:
            case Together(messages):
                return await send_drops(self.directory, [cast(Drop, message) for message in messages])
            case End(attempt, settled):
                return await self.end(attempt, settled=settled)
            case EndInBackground(attempt, unused):
                return self.outbox.add(attempt, unused)
        raise TypeError(f"a session does not carry out {step}")


def _expect(reply: Reply, message: Message, *expected: type[R]) -> R | Refused:
    if isinstance(reply, (Refused, *expected)):
        return cast(R | Refused, reply)
    raise CorruptRecord(
        f"{type(message).__name__} was answered with a {type(reply).__name__}: is a worker of another version running?"
    )
