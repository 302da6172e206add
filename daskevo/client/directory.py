"""Directory of shards: a cached copy of the coordinator's table, and calls that follow shards to their providers.

A call that finds no provider, the wrong one or a dead one is repeated with a newer table until an answer or a deadline.
Repeating is safe for all messages of `daskevo.protocol.messages`: they name their attempt or tick, and change sets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from daskevo.client.local_peers import LocalPeer, LocalPeers
from daskevo.client.suspect_providers import SuspectProviders
from daskevo.errors import ClusterError, DaskevoError, ShardDamaged, ShardFenced, ShardUnavailable
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.messages import Message
from daskevo.protocol.replies import Reply, reply_from_wire
from daskevo.protocol.shard_table import ShardTable
from daskevo.types import ModelId
from daskevo.wire.transport import NoAnswer, Transport, typed_error, value_of

CALL_TIMEOUT_S = 10.0
"""Longest wait for one answer about metadata, in seconds, before the table is fetched again."""
LOCAL_PEER_TIMEOUT_S = 2.0
"""Longest wait to find out whether a provider is on this host, in seconds; without an answer, messages are used."""
_LOOK_AGAIN_S = 3.0
"""Interval at which a waiting call checks that its shard has not moved, in seconds."""
_MOVING_S = 10.0
"""Longest time to wait for shards without a provider, which may be moving, in calls that need all shards; seconds."""
_FIRST_PAUSE_S = 0.02
"""Pause before the first repetition, in seconds; each further one is twice as long, up to `_LONGEST_PAUSE_S`."""
_LONGEST_PAUSE_S = 0.5


SHOWN = 3
"""Most damaged shards that a log line describes."""
DAMAGED = f"{ShardDamaged.__name__}: "
"""Prefix of the table's text for a damaged shard: the coordinator sends the error's class with its message."""
logger = logging.getLogger(__name__)


def damaged_shards(table: ShardTable) -> dict[int, str]:
    """Return the shards that are not served because they are damaged -> what is wrong and what to do."""
    return {
        shard: f"shard {shard}: {trouble.removeprefix(DAMAGED)}"
        for shard, trouble in table.troubles.items()
        if table.places[shard] is None and trouble.startswith(DAMAGED)
    }


def _say_some(damaged: Mapping[int, str]) -> str:
    more = f"; and {len(damaged) - SHOWN} more" if len(damaged) > SHOWN else ""
    return "; ".join(list(damaged.values())[:SHOWN]) + more


class ShardCall(NamedTuple):
    """A call to one shard: a method of its provider, and the arguments besides the shard."""

    shard: int
    method: str
    arguments: Mapping[str, Any]
    patient: bool = True
    """Whether to wait the full time for a provider that did not answer lately, see `Directory.call`."""


def _unavailable(shard: int, method: str, timeout_s: float, found: str, worker: str | None) -> ShardUnavailable:
    return ShardUnavailable(
        f"shard {shard} gave no answer to {method!r} within {timeout_s:.1f} s: {found}; "
        "check that a worker with the resource 'provider' is running, then try again",
        shard=shard,
        worker=worker,
        method=method,
    )


def _typed(shard: int, trouble: str, *, sent: bool) -> DaskevoError:
    kind, _, message = trouble.partition(": ")
    return typed_error(kind, f"shard {shard} isn't served: {message}", {"shard": shard, "sent": sent})


class Directory:
    """Shard table of one process, and calls to the providers in it.

    Parameters
    ----------
    transport:
        Calls coordinator and providers.
    fetch:
        Returns the current table; None: ask the coordinator. The coordinator itself passes a function.
    """

    def __init__(self, transport: Transport, fetch: Callable[[], Awaitable[ShardTable]] | None = None) -> None:
        self.transport = transport
        self.suspects = SuspectProviders()
        self.warns = True
        """Whether to log that an answer leaves out damaged shards; False if they have been reported before."""
        self._fetch = fetch or self._ask_coordinator
        self._table: ShardTable | None = None
        self._refreshing: asyncio.Task[ShardTable] | None = None
        self.local_peers = LocalPeers(self._seen_root)

    async def table(self) -> ShardTable:
        """Return the table, fetched at first use."""
        return self._table if self._table is not None else await self.refresh()

    async def refresh(self) -> ShardTable:
        """Fetch the table again; concurrent callers share one message."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.ensure_future(self._fetch())
        # Shielded: a caller that is cancelled must not cancel the message of the others.
        # Tables are fetched one after the other, so the last one is the newest. Its version number would not tell: it
        # begins again if the repository is opened again.
        self._table = await asyncio.shield(self._refreshing)
        return self._table

    async def _ask_coordinator(self) -> ShardTable:
        return ShardTable.from_wire(await self.transport.coordinator("table", timeout_s=CALL_TIMEOUT_S))

    async def providers(self) -> dict[str, str]:
        """Return name -> address of the providers that serve shards now."""
        table = await self.table()
        return dict(sorted({(place.name, place.address) for place in table.places.values() if place is not None}))

    async def shard_of(self, model_id: ModelId) -> int:
        """Return the shard that a model belongs to."""
        return shard_of(model_id, (await self.table()).shards)

    async def _seen_root(self, address: str) -> Any:
        timeout_s = self.suspects.patience(address, LOCAL_PEER_TIMEOUT_S)
        return await self._call(address, "sight", timeout_s=timeout_s)

    async def local_peer(self, shard: int) -> LocalPeer | None:
        """Return the provider that serves `shard` if it shares a host and the root with this process."""
        place = (await self.table()).places[shard]
        return None if place is None else await self.local_peers.at(place.address)

    async def call(
        self,
        shard: int,
        method: str,
        *,
        timeout_s: float,
        call_timeout_s: float | None = None,
        patient: bool = True,
        bring: Callable[[str], Awaitable[Mapping[str, Any]]] | None = None,
        **arguments: Any,
    ) -> Any:
        """Call the provider that serves `shard`, and repeat the call if the shard moves.

        The provider's method returns None if it does not serve the shard.

        Parameters
        ----------
        timeout_s:
            Time limit of all tries together, in seconds.
        call_timeout_s:
            Time limit of one try; None: `timeout_s`.
        patient:
            Whether to wait the full time for a provider that did not answer lately; callers that can do without the
            answer pass False, and then wait `SILENT_TIMEOUT_S` for it.
        bring:
            Called with the address before each try; returns arguments that depend on the address. Its own time does
            not count towards `timeout_s`.

        Raises
        ------
        ShardUnavailable
            If no provider answered for the shard within `timeout_s` seconds.
        ShardDamaged
            At once, if the shard's records can't be read; its fact `sent` says whether a provider may have received
            the message.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        found, pause, worker = "", _FIRST_PAUSE_S, None
        place = trouble = None
        sent = False
        while (left := deadline - loop.time()) > 0:
            table = await self.table()
            place, trouble = table.places[shard], table.troubles.get(shard)
            if place is None:
                found = trouble or "no provider serves it"
                if trouble is not None and trouble.startswith(DAMAGED):
                    raise _typed(shard, trouble, sent=sent)
            else:
                worker, address = place.name, place.address
                if not patient:
                    left = self.suspects.patience(address, left)
                    deadline = min(deadline, loop.time() + left)
                try:
                    if bring is not None:
                        began = loop.time()
                        arguments.update(await bring(address))
                        # It sends gigabytes if need be, each message with a time limit of its own.
                        deadline += loop.time() - began
                    value = await self._call_while_there(
                        shard, address, method, timeout_s=min(left, call_timeout_s or left), **arguments
                    )
                except (NoAnswer, ShardFenced) as error:
                    # Carried out or not: neither error tells, so `sent` stays true from here on.
                    found, sent = str(error), True
                else:
                    if value is not None:
                        return value
                    found = f"{worker} at {address} does not serve it any more"
            await asyncio.sleep(min(pause, max(deadline - loop.time(), 0)))
            pause = min(pause * 2, _LONGEST_PAUSE_S)
            await self.refresh()
        if place is None and trouble is not None:
            raise _typed(shard, trouble, sent=sent)
        raise _unavailable(shard, method, timeout_s, found, worker)

    async def _call_while_there(
        self, shard: int, address: str, method: str, *, timeout_s: float, **arguments: Any
    ) -> Any:
        """Call a provider, and stop waiting when the shard has moved: the old provider may never answer.

        Raises
        ------
        NoAnswer
            Also if the shard has moved: the caller repeats the call with the new table.
        """
        # In a task, so that it can be abandoned when the table changes. A task takes 20 us of the event loop, a call
        # to another process some hundreds.
        call = asyncio.ensure_future(self._call(address, method, timeout_s=timeout_s, shard=shard, **arguments))
        try:
            while not (await asyncio.wait([call], timeout=_LOOK_AGAIN_S))[0]:
                try:
                    place = (await self.refresh()).places[shard]
                except ClusterError:
                    continue  # without a newer table, the call's own time limit ends the wait
                # Without this, a call to a provider that is suspended would wait for its full time limit although
                # another one serves.
                if place is not None and place.address != address:
                    raise NoAnswer(address, method, f"shard {shard} is served by {place.name} by now")
            return call.result()
        finally:
            call.cancel()

    async def _call(self, address: str, method: str, *, timeout_s: float, **arguments: Any) -> Any:
        """Call a provider, and record whether it answers in time."""
        try:
            value = await self.transport.provider(address, method, timeout_s=timeout_s, **arguments)
        except NoAnswer as error:
            if error.late:
                self.suspects.missed(address, timeout_s)
            raise
        except DaskevoError:
            self.suspects.heard(address)
            raise
        self.suspects.heard(address)
        return value

    async def together(self, calls: Sequence[ShardCall], *, timeout_s: float) -> list[Any]:
        """Carry out several calls concurrently, joining those to the same provider into one message.

        Returns
        -------
        For each call its value, or the error that `call` would have raised; an error does not stop the other calls.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        table = await self.table()
        found: list[Any] = [None] * len(calls)
        groups: dict[str | None, list[int]] = {}
        for index, call in enumerate(calls):
            place = table.places[call.shard]
            groups.setdefault(None if place is None else place.address, []).append(index)

        async def follow(index: int) -> None:
            call = calls[index]
            try:
                found[index] = await self.call(
                    call.shard,
                    call.method,
                    timeout_s=max(deadline - loop.time(), 0),
                    patient=call.patient,
                    **call.arguments,
                )
            except DaskevoError as error:
                found[index] = error

        async def ask(address: str | None, indices: Sequence[int]) -> None:
            # A single call needs no joint message. Calls that stay without a result here, because a shard has no
            # provider or has moved, are repeated one by one by `follow`, which fetches newer tables.
            if address is not None and len(indices) > 1:
                wires = [[calls[index].method, calls[index].shard, dict(calls[index].arguments)] for index in indices]
                patient = any(calls[index].patient for index in indices)
                wait_s = timeout_s if patient else self.suspects.patience(address, timeout_s)
                try:
                    replies = await self._call(address, "together", timeout_s=wait_s, calls=wires)
                except NoAnswer as error:
                    if error.late:  # the time is up for all of them
                        for index in indices:
                            shard, method = calls[index][:2]
                            place = table.places[shard]
                            worker = None if place is None else place.name
                            found[index] = _unavailable(shard, method, wait_s, error.reason, worker)
                else:
                    for index, reply in zip(indices, replies["replies"], strict=True):
                        try:
                            found[index] = value_of(reply)
                        except ShardFenced as error:
                            logger.info("daskevo: shard %d is looked for elsewhere: %s", calls[index].shard, error)
                        except DaskevoError as error:
                            found[index] = error
            await asyncio.gather(*(follow(index) for index in indices if found[index] is None))

        await asyncio.gather(*(ask(address, indices) for address, indices in groups.items()))
        return found

    async def ask(
        self, shard: int, messages: Sequence[Message], timeout_s: float, *, patient: bool = True
    ) -> list[Reply]:
        """Send messages to one shard, which carries them out in order; return their replies."""
        wires = await self.call(
            shard,
            "ask",
            timeout_s=timeout_s,
            call_timeout_s=CALL_TIMEOUT_S,
            patient=patient,
            messages=[message.to_wire() for message in messages],
        )
        return [reply_from_wire(wire) for wire in wires]

    async def everywhere(
        self, method: str, *, timeout_s: float, patient: bool = True, **arguments: Any
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Call all providers that serve shards, concurrently; `patient` as in `call`.

        Returns
        -------
        answers:
            Name of the provider -> its answer.
        silent:
            Name of each provider that did not answer in time -> why.
        """
        providers = await self.providers()
        results = await asyncio.gather(
            *(
                self._call(
                    address,
                    method,
                    timeout_s=timeout_s if patient else self.suspects.patience(address, timeout_s),
                    **arguments,
                )
                for address in providers.values()
            ),
            return_exceptions=True,
        )
        answers: dict[str, Any] = {}
        silent: dict[str, str] = {}
        for name, result in zip(providers, results, strict=True):
            if isinstance(result, NoAnswer):
                silent[name] = str(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                answers[name] = result
        if silent:
            await self.refresh()  # the caller may try again, with the providers that have taken over the shards
        return answers, silent

    async def all(self, method: str, *, timeout_s: float, **arguments: Any) -> list[Any]:
        """Call all providers for answers that cover all shards except damaged ones.

        If a shard moves meanwhile, all providers are asked again: the shard would be counted twice or not at all.

        Raises
        ------
        ShardUnavailable
            If a shard is not served, or a provider does not answer in time.
        """
        loop = asyncio.get_running_loop()
        deadline, pause_s = loop.time() + timeout_s, _FIRST_PAUSE_S
        warned = False
        table = await self.refresh()
        gathering = loop.time() + min(timeout_s, _MOVING_S)
        while True:
            damaged = damaged_shards(table)
            if damaged and not warned and self.warns:
                logger.warning("daskevo: %s leaves out %d damaged shards: %s", method, len(damaged), _say_some(damaged))
                warned = True
            missing = [shard for shard, place in table.places.items() if place is None and shard not in damaged]
            # If no shard at all is served, no provider is left, and waiting for shards that move is useless.
            if missing and len(missing) < len(table.places) and loop.time() < gathering:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                table = await self.refresh()
                continue
            answers, silent = await self.everywhere(method, timeout_s=timeout_s, **arguments)
            # Answers of different providers belong together only if no shard moved while they were given.
            asked, table = table, await self.refresh()
            if missing or (silent and table.places == asked.places) or loop.time() > deadline:
                break
            if table.places == asked.places:
                return list(answers.values())
        raise ShardUnavailable(
            f"{method!r} needs all shards at one moment, but nobody serves {missing[:5]} and there is no answer from "
            f"{silent}: try again when the providers are back",
            shard=missing[0] if missing else None,
            worker=next(iter(silent), None),
            method=method,
        )
