"""Verify: everything that isn't as the protocol promises, over all shards; with `repair`, the audit first."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from daskevo.cluster.auditing import over_among
from daskevo.cluster.directory import damaged_shards
from daskevo.cluster.session import Session
from daskevo.ownership.audit import Difference, claims_of, differences
from daskevo.ownership.snapshot import ShardSnapshot
from daskevo.types import ModelId

CHECK_TIMEOUT_S = 600.0
"""Longest that one provider may take to read all its tensors."""
_LOOKS = 6
_FIRST_PAUSE_S = 0.05


@dataclass(frozen=True)
class Verification:
    """What `verify` found.

    Parameters
    ----------
    differences:
        What isn't as promised, in words; empty if the repository is clean.
    models:
        Published models.
    tensors, payload_bytes:
        Tensors that are stored, each counted once, and their bytes.
    """

    differences: tuple[Difference, ...]
    models: int
    tensors: int
    payload_bytes: int

    @property
    def clean(self) -> bool:
        """Whether there is nothing to complain of."""
        return not self.differences

    def to_json(self) -> dict[str, object]:
        """Return what ``daskevo verify --json`` prints."""
        return {
            "clean": self.clean,
            "differences": [f"{difference.kind}: {difference.words}" for difference in self.differences],
            "models": self.models,
            "tensors": self.tensors,
            "payload_bytes": self.payload_bytes,
        }


async def verify(session: Session, *, repair: bool, read_tensors: bool = True) -> Verification:
    """Compare all shards with each other, and all tensors with their checksums.

    Parameters
    ----------
    repair:
        Audit first: drop what is over and unpublished.
    read_tensors:
        Read every tensor and compare it with its checksum.

    Raises
    ------
    ShardUnavailable
        If a provider gives no answer: no verdict without all shards. Damaged ones are named, and so is what can't
        be known without them.
    """
    await session.outbox.sent()
    if repair:
        await session.directory.all("audit", timeout_s=CHECK_TIMEOUT_S)
    pause_s = _FIRST_PAUSE_S
    snapshots, found = await _look(session)
    for _ in range(_LOOKS):
        # Work beside this may look unfinished at one moment: only what stays is a difference.
        if not found:
            break
        await asyncio.sleep(pause_s)
        pause_s *= 2
        snapshots, again = await _look(session)
        found = [difference for difference in found if difference in again]
    if read_tensors:
        for answer in await session.directory.all("check_segments", timeout_s=CHECK_TIMEOUT_S):
            found += [Difference("damaged tensor", ModelId(model), words) for model, words in answer]  # type: ignore[arg-type]
    table = await session.directory.table()
    for words in damaged_shards(table).values():
        found.insert(0, Difference("damaged shard", None, words))
    views = [view for snapshot in snapshots for view in snapshot.models]
    return Verification(
        tuple(found),
        models=sum(view.state == "published" for view in views),
        tensors=sum(len(view.alive) for view in views),
        payload_bytes=sum(view.alive_bytes for view in views),
    )


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
