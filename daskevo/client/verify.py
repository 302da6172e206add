"""Verify a repository: find all violations of the protocol over all shards, and repair them on request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from daskevo.client.directory import damaged_shards
from daskevo.client.ended_attempts import over_among
from daskevo.client.session import Session
from daskevo.protocol.audit import Difference, claims_of, differences
from daskevo.protocol.codec import numbers_of, runs
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.lost import LostModel, Mark, lost_models, restores, tensors_gone, unexplained
from daskevo.protocol.snapshot import ShardSnapshot
from daskevo.store.losses import Loss
from daskevo.types import ModelId

CHECK_TIMEOUT_S = 600.0
"""Longest time for one provider to read all its tensors, in seconds."""
WRITER_S = 3600.0
"""Age from which a temporary file counts as abandoned while the repository is open, in seconds."""
_LOOKS = 6
"""Most repetitions to tell real differences from work that is just under way."""
_FIRST_PAUSE_S = 0.05
"""Pause before the first repetition, in seconds; each further one is twice as long."""


@dataclass(frozen=True)
class Verification:
    """Result of `verify` and of a repair.

    Parameters
    ----------
    differences:
        Violations of the protocol, described; empty if the repository is clean.
    models:
        Number of published models.
    tensors, payload_bytes:
        Number of stored tensors, each counted once, and their bytes.
    mended:
        Violations that the repair has removed.
    lost:
        Published models that a repair has marked as lost: they can't be loaded, retire them.
    foreign:
        Paths under the root that are not daskevo's; they are left alone, and are not violations.
    file_bytes:
        Bytes of all files under the root, counted on the disk; 0 without a root.
    """

    differences: tuple[Difference, ...]
    models: int
    tensors: int
    payload_bytes: int
    mended: tuple[Difference, ...] = ()
    lost: tuple[LostModel, ...] = ()
    foreign: tuple[str, ...] = ()
    file_bytes: int = 0

    @property
    def clean(self) -> bool:
        """Whether there are no differences; models that are marked as lost don't count."""
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """Return the output of ``daskevo verify --json``."""
        return {
            "clean": self.clean,
            "differences": [_said(difference) for difference in self.differences],
            "models": self.models,
            "tensors": self.tensors,
            "payload_bytes": self.payload_bytes,
            "mended": [_said(difference) for difference in self.mended],
            "lost": [{"model": lost.model, "since": lost.since, "words": lost.words} for lost in self.lost],
            "foreign": list(self.foreign),
            "file_bytes": self.file_bytes,
        }


def _said(difference: Difference) -> str:
    return f"{difference.kind}: {difference.words}"


async def verify(
    session: Session, *, repair: bool, read_tensors: bool = True, before: Iterable[Difference] = ()
) -> Verification:
    """Compare all shards with each other, all tensors with their checksums, and the files with the records.

    Parameters
    ----------
    repair:
        Whether to repair first: drop references of ended attempts and of models lost with a provider's memory, restore
        missing references, delete leftovers of dead writers; then mark tensors that are lost for good.
    read_tensors:
        Whether to read every tensor and compare it with its checksum; without, nothing is marked.
    before:
        Differences found before this repair began, for example before its shards were opened.

    Raises
    ------
    ShardUnavailable
        If a provider does not answer: verification needs all shards. Damaged shards are reported as differences, and
        so is everything that can't be checked without them.
    """
    await session.outbox.sent()
    seen = list(before)
    if repair:
        snapshots, found = await _settled(session)
        seen += [*found, *(await _files(session))[0]]
        await session.directory.all("audit", timeout_s=CHECK_TIMEOUT_S, give_up_lost=True)
        # Refusals are ignored: a tensor has been freed meanwhile, and the second look below reports what still lacks.
        await session.send_together(restores(snapshots, found))
        await _files(session, remove=True)
    snapshots, found = await _settled(session)
    leftover, foreign, file_bytes = await _files(session)
    found += leftover
    if read_tensors:
        damage, healed = await _damage(session, mend=repair)
        found += damage
        seen += healed
    marks, unreadable = await _marks(session)
    if read_tensors:
        gone = tensors_gone(found)
        if repair:
            if await _mark(session, gone, marks):
                # Queries must not match lost models any more, and must match those that are intact again.
                await session.directory.everywhere("forget_lost", timeout_s=CHECK_TIMEOUT_S)
            marks, unreadable = await _marks(session)
        # Leave out marks of tensors that are intact again; a repair removes them.
        marks = {owner: {n: mark for n, mark in of.items() if n in gone.get(owner, {})} for owner, of in marks.items()}
    table = await session.directory.table()
    damaged = [Difference("damaged shard", None, words) for words in damaged_shards(table).values()]
    views = [view for snapshot in snapshots for view in snapshot.models]
    return Verification(
        (*damaged, *unexplained(found, snapshots, marks), *unreadable),
        models=sum(view.state == "published" for view in views),
        tensors=sum(len(view.alive) for view in views),
        payload_bytes=sum(view.alive_bytes for view in views),
        mended=tuple(dict.fromkeys(difference for difference in seen if difference not in found)),
        lost=tuple(lost_models(snapshots, marks)),
        foreign=foreign,
        file_bytes=file_bytes,
    )


async def differences_now(session: Session) -> list[Difference]:
    """Return all differences that can be found without reading tensors."""
    _, found = await _settled(session)
    return found + (await _files(session))[0]


async def _settled(session: Session) -> tuple[list[ShardSnapshot], list[Difference]]:
    pause_s = _FIRST_PAUSE_S
    snapshots, found = await _look(session)
    for _ in range(0 if session.at_rest else _LOOKS):
        # Concurrent puts and retirements look like differences for a moment: keep only those that stay.
        if not found:
            break
        await asyncio.sleep(pause_s)
        pause_s *= 2
        snapshots, again = await _look(session)
        found = [difference for difference in found if difference in again]
    return snapshots, found


async def _look(session: Session) -> tuple[list[ShardSnapshot], list[Difference]]:
    snapshots = [
        ShardSnapshot.from_wire(value)
        for answer in await session.directory.all("snapshots", timeout_s=session.timeout_s)
        for value in answer
    ]
    attempts = sorted({attempt for snapshot in snapshots for _, attempt in claims_of(snapshot)})
    over = await over_among(session, attempts)
    table = await session.directory.table()
    return snapshots, differences(snapshots, over, unread=damaged_shards(table).keys(), shards=table.shards)


async def _files(session: Session, *, remove: bool = False) -> tuple[list[Difference], tuple[str, ...], int]:
    """List the files; return leftovers of dead writers, foreign files, and the bytes of all files."""
    # While the repository is open, a young temporary file may belong to a put that is being written.
    older_s = 0.0 if session.at_rest else WRITER_S
    answers = await session.directory.all("recount", timeout_s=CHECK_TIMEOUT_S, older_s=older_s, remove=remove)
    # Every provider lists the root's own files: take the list of one of them.
    parts = [answer["root"] for answer in answers if answer["root"] is not None][:1]
    parts += [part for answer in answers for part in answer["shards"]]
    leftover = [
        Difference("leftover file", None, f"{path}, {nbytes} bytes, was left by a writer that died")
        for _, files, _ in parts
        for path, nbytes in files
    ]
    return leftover, tuple(path for *_, foreign in parts for path in foreign), sum(part[0] for part in parts)


async def _damage(session: Session, *, mend: bool) -> tuple[list[Difference], list[Difference]]:
    """Return damage that remains, and damage that has been repaired."""
    damage: list[Difference] = []
    healed: list[Difference] = []
    for answer in await session.directory.all("check_segments", timeout_s=CHECK_TIMEOUT_S, mend=mend):
        for model, numbers, words, mended in answer:
            difference = Difference("damaged tensor", ModelId(model), words, ModelId(model), numbers_of(numbers))
            (healed if mended else damage).append(difference)
    return damage, healed


async def _marks(session: Session) -> tuple[dict[ModelId, dict[int, Mark]], list[Difference]]:
    """Return the marks of all shards, and a difference for each list of marks that can't be read."""
    marks: dict[ModelId, dict[int, Mark]] = {}
    unreadable = []
    for answer in await session.directory.all("losses", timeout_s=session.timeout_s):
        for value in answer:
            if isinstance(value, str):
                unreadable.append(Difference("damaged marks", None, value))
                continue
            loss = Loss.from_json(value)
            marks.setdefault(loss.owner, {}).update(dict.fromkeys(loss.numbers, Mark(loss.since, loss.found)))
    return marks, unreadable


async def _mark(session: Session, gone: Mapping[ModelId, Mapping[int, str]], marks: Mapping[ModelId, Any]) -> bool:
    """Replace the marks of lost tensors at their owners' shards; return whether there are or were any."""
    # Shards without losses get an empty list, which removes marks that are no longer true.
    table = await session.directory.table()
    rows: dict[int, list[Any]] = {shard: [] for shard, place in table.places.items() if place is not None}
    for owner, tensors in sorted(gone.items()):
        for words in sorted(set(tensors.values())):
            numbers = runs(number for number, found in tensors.items() if found == words)
            rows.setdefault(shard_of(owner, table.shards), []).append([owner, numbers, words])
    marked = {shard_of(owner, table.shards) for owner in marks}
    results = await asyncio.gather(
        *(
            session.directory.call(shard, "mark_lost", timeout_s=session.timeout_s, lost=lost)
            for shard, lost in rows.items()
            if lost or shard in marked
        ),
        return_exceptions=True,
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result  # only now: all other shards have been marked
    return bool(gone or marks)
