"""Inherit from the best ancestor: match it, reserve and read the shared prefix; try the next best if that fails.

The query runs while the attempt begins, and each owner reserves and returns tensors in one message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal, NamedTuple

from daskevo.client.best_match import Question, best_matches
from daskevo.client.reservations import refer_all
from daskevo.client.run_script import run_script
from daskevo.client.session import Caller, Session
from daskevo.client.tensor_reader import Array, WantedTensors, wanted_of
from daskevo.errors import (
    ClusterError,
    CorruptRecord,
    DaskevoError,
    ModelExists,
    ModelRetired,
    RepositoryError,
    ShardUnavailable,
)
from daskevo.graph import ArchitectureGraph, Prefix, longest_common_prefix
from daskevo.index import PrefixMatch
from daskevo.protocol import scripts
from daskevo.protocol.messages import Message, Open, Status
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry
from daskevo.protocol.records import BEGINNING
from daskevo.protocol.replies import Reply, Standing
from daskevo.protocol.steps import Begin, Find, Reserve, Step
from daskevo.types import Attempt, ModelId

_INLINE_CHARACTERS = 100_000
"""Longest text of an ancestor's graph that is decoded on the event loop, some milliseconds; a thread takes longer for
shorter ones."""

SILENT_OWNERS = 3
"""Number of ancestors with unresponsive owners after which nothing is inherited: the others may need the same
provider."""


@dataclass
class Reservation:
    """An attempt to make a model, with its ancestor and the inherited tensors that are reserved at their owners.

    Parameters
    ----------
    entries:
        Tensor number of the child -> the ancestor's entry for it.
    arrays:
        Tensor number of the child -> its value, read-only.
    tried:
        Ancestors that were the best match but could not be inherited from -> why.
    too_few:
        Whether the last of `tried` shares fewer layers than the caller requires.
    silent:
        Provider or shard that did not answer the query -> why.
    seconds:
        Durations by step: ``match_s``, ``reserve_s``.
    """

    model_id: ModelId
    attempt: Attempt
    ancestor: ModelRecord | None = None
    ancestor_graph: ArchitectureGraph | None = None
    prefix: Prefix = field(default_factory=lambda: Prefix(()))
    entries: dict[int, OwnerEntry] = field(default_factory=dict)
    arrays: dict[int, Array] = field(default_factory=dict)
    tried: dict[ModelId, str] = field(default_factory=dict)
    too_few: bool = False
    silent: Mapping[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def owners(self) -> dict[ModelId, frozenset[int]]:
        """Owner -> numbers of its reserved tensors."""
        return {owner: frozenset(entries) for owner, entries in self.by_owner.items()}

    @property
    def by_owner(self) -> dict[ModelId, dict[int, OwnerEntry]]:
        """Owner -> tensor number at the owner -> inherited entry."""
        owners: dict[ModelId, dict[int, OwnerEntry]] = {}
        for entry in self.entries.values():
            owners.setdefault(entry.owner, {})[entry.number] = entry
        return owners


async def reserve_best(
    session: Session,
    caller: Caller,
    model_id: ModelId,
    graph: ArchitectureGraph,
    scope: str,
    *,
    weigh: str = "vertex",
    match: PrefixMatch | None = None,
    ancestor: ModelId | Literal[False] | None = None,
    check_id: bool = False,
    minimum_layers: int = 0,
) -> Reservation:
    """Reserve and read the longest prefix of the best ancestor.

    Parameters
    ----------
    match:
        Result of an earlier query, which is tried before the next best.
    ancestor:
        The only model to inherit from; False: none, only begin an attempt.
    check_id:
        Whether to check first that the id is free, so that a task that runs again after its put does not train.
    minimum_layers:
        Minimum number of shared layers with weights; nothing is inherited from an ancestor that shares fewer.

    Returns
    -------
    A reservation without ancestor if no model of the scope shares a tensor-bearing prefix.

    Raises
    ------
    ModelExists
        If `check_id` and the id is taken; its `record` is the record of the stored model.
    UnknownModel, ModelRetired, ModelLost
        If `ancestor` is given and can't be inherited from.
    AttemptOver
        If the holder has ended.
    """
    search = _Search(session, model_id, graph, scope, weigh, match, ancestor, check_id)
    tries = _Tries(session, caller, search, minimum_layers, patient=ancestor is not None)
    attempt = await run_script(scripts.reserve(model_id, again=not ancestor), tries.carry_out)
    if attempt is None:
        assert ancestor
        reason = search.tried[ancestor]
        raise ModelRetired(f"{ancestor!r} can't be inherited from: {reason}", model_id=ancestor, reason=reason)
    tries.found.attempt = attempt
    return tries.found


class _Tries:
    """Carries out `scripts.reserve`, and keeps what was found and read in the last try."""

    def __init__(
        self, session: Session, caller: Caller, search: _Search, minimum_layers: int, *, patient: bool
    ) -> None:
        self._session = session
        self._caller = caller
        self._search = search
        self._minimum_layers = minimum_layers
        self._patient = patient
        self._seconds = {"match_s": 0.0, "reserve_s": 0.0}
        self._owners: dict[ModelId, dict[int, WantedTensors]] = {}
        self._started = 0.0
        self.found: Reservation

    async def carry_out(self, step: Step) -> Any:
        match step:
            case Begin():
                self._started = perf_counter()
                # Searching needs no attempt, since it reserves nothing: both messages travel at once.
                self._looking = asyncio.ensure_future(self._search.next())
                try:
                    return await self._session.begin(self._caller, self._search.model_id)
                except BaseException:
                    self._looking.cancel()
                    await asyncio.wait([self._looking])
                    raise
            case Find():
                return await self._find()
            case Reserve(_, attempt, _):
                return await self._reserve(attempt)
        return await self._session.carry_out(step)

    async def _find(self) -> Mapping[ModelId, Collection[int]]:
        search = self._search
        record, silent = await self._looking
        asked, self._started = self._started, perf_counter()
        self._seconds["match_s"] += self._started - asked
        found = Reservation(search.model_id, BEGINNING, tried=search.tried, silent=silent, seconds=self._seconds)
        # What the try before has found must not be taken for this one's, if it finds nothing.
        self.found, self._owners = found, {}
        if record is None:
            return {}
        graph = search.graph
        if len(record.graph or "") > _INLINE_CHARACTERS:
            other, prefix = await asyncio.to_thread(_prefix, graph, record)
        else:
            other, prefix = _prefix(graph, record)
        entries = {mine: record.owner_map.entries[theirs] for mine, theirs in prefix.tensors(graph, other)}
        shared = len({graph.tensors[number].layer for number in entries})
        if shared < self._minimum_layers:
            words = f"layers with weights that it shares: {shared}, at least {self._minimum_layers} were asked for"
            found.tried[record.model_id], found.too_few = words, True
        else:
            found.ancestor, found.ancestor_graph, found.prefix, found.entries = record, other, prefix, entries
            self._owners = wanted_of(graph, entries.items())
        if not self._owners:
            self._seconds["reserve_s"] += perf_counter() - self._started
        return self._owners

    async def _reserve(self, attempt: Attempt) -> bool:
        """Reserve all tensors of the shared prefix at their owners, in parallel, and read them; all or nothing."""
        search, found = self._search, self.found
        results = await refer_all(self._session, search.model_id, attempt, self._owners, patient=self._patient)
        trouble = [result for result in results if isinstance(result, Exception)]
        if trouble:
            unheard = [error for error in trouble if isinstance(error, ClusterError)]
            search.unheard += bool(unheard)
            assert found.ancestor is not None
            # Excluded from the next query, which would find it again.
            search.tried[found.ancestor.model_id] = str((unheard or trouble)[0])
            return False
        read: dict[tuple[ModelId, int], Array] = {}
        for owner, arrays in zip(self._owners, results, strict=True):
            read.update(((owner, number), array) for number, array in arrays.items())  # type: ignore[union-attr]
        found.arrays = {mine: read[entry.owner, entry.number] for mine, entry in found.entries.items()}
        self._seconds["reserve_s"] += perf_counter() - self._started
        return True


class _Found(NamedTuple):
    """The record of the ancestor to try, if there is one, and the providers or shards that did not answer -> why."""

    record: ModelRecord | None
    silent: Mapping[str, str] = {}


class _Search:
    """Finds the ancestor to try next; it changes nothing and needs no attempt."""

    def __init__(
        self,
        session: Session,
        model_id: ModelId,
        graph: ArchitectureGraph,
        scope: str,
        weigh: str,
        match: PrefixMatch | None,
        ancestor: ModelId | Literal[False] | None,
        check_id: bool,
    ) -> None:
        self._session = session
        self.model_id = model_id
        self.graph = graph
        self._scope = scope
        self._weigh = weigh
        self._match = match
        self._ancestor = ancestor
        self._check_id = check_id
        self.tried: dict[ModelId, str] = {}
        self.unheard = 0
        """Number of ancestors in `tried` with an owner that did not answer."""

    async def next(self) -> _Found:
        if self.unheard >= SILENT_OWNERS:
            return _Found(None)
        # Both hold for the first try only: after it the id is known to be free, and the caller's match has been tried.
        check, self._check_id = self._check_id, False
        match, self._match = self._match, None
        if self._ancestor is not None or match is not None:
            named = match.model_id if match is not None else self._ancestor or None
            standing, opened = await self._ask(check, named)
            if check:
                _refuse_taken(self.model_id, standing)
                check = False
            if named is None:
                return _Found(None)
            try:
                return _Found(await self._session.opened(named, _answered(opened)))
            except (ShardUnavailable, RepositoryError) as error:
                if match is None:
                    raise
                self.tried[named] = str(error)
        return await self._best(check)

    async def _ask(
        self, check: bool, named: ModelId | None
    ) -> tuple[Reply | DaskevoError | None, Reply | DaskevoError | None]:
        messages: list[Message] = []
        if check:
            messages.append(Status(self.model_id))
        if named is not None:
            messages.append(Open(named))
        # If a match's provider does not answer, the next best is tried; for a given ancestor, wait the full time.
        patient = [isinstance(message, Status) or bool(self._ancestor) for message in messages]
        replies = await self._session.send_together(messages, patient)
        return (replies[0] if check else None), (replies[-1] if named is not None else None)

    async def _best(self, check: bool) -> _Found:
        session = self._session
        question = Question.of(self.graph, self._weigh, self.tried)
        answer = await best_matches(
            session.directory,
            self._scope,
            [question],
            timeout_s=session.timeout_s / 2,
            records=True,
            status=self.model_id if check else None,
        )
        if check:
            # Its shard may be moving, or its provider has not answered: then ask it alone.
            _refuse_taken(self.model_id, answer.standing or await session.standing(self.model_id))
        (match,) = answer.matches
        if match is None or match.model_id in answer.records:
            return _Found(None if match is None else answer.records[match.model_id], answer.silent)
        # The index has the model but its shard is not served there: it is moving. `next` asks its new provider.
        self._match = match
        return await self.next()


def _answered(reply: Reply | DaskevoError | None) -> Reply:
    if isinstance(reply, Reply):
        return reply
    raise reply or CorruptRecord("a message was not answered")


def _refuse_taken(model_id: ModelId, reply: Reply | DaskevoError | None) -> None:
    standing = _answered(reply)
    if not isinstance(standing, Standing):
        raise CorruptRecord(f"the status of {model_id!r} was answered with {standing}", model_id=model_id)
    if standing.state in ("published", "retiring", "retired"):
        raise ModelExists(
            f"{model_id!r} is {standing.state} already: ids are never used again. If this task was run twice, its "
            "result is this error's `record`; otherwise choose another id",
            model_id=model_id,
            state=standing.state,
            record=standing.record,
        )


def _prefix(graph: ArchitectureGraph, record: ModelRecord) -> tuple[ArchitectureGraph, Prefix]:
    other = record.architecture
    return other, longest_common_prefix(graph, other)
