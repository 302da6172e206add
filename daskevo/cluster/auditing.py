"""The audit of one shard, carried out: ask the coordinator, ask the homes, drop what is over and unpublished.

Runs beside all other work. No answer is no verdict (protocol.md, Ended attempts, audit).
"""

from __future__ import annotations

import asyncio
from functools import partial

from daskevo.cluster.directory import CALL_TIMEOUT_S
from daskevo.cluster.serving import ServedShard
from daskevo.cluster.session import Session
from daskevo.errors import ClusterError, RepositoryError
from daskevo.ownership.audit import claims_of, question_to_home, remedies
from daskevo.ownership.references import Claim
from daskevo.ownership.replies import Reply
from daskevo.ownership.snapshot import FileView, ShardSnapshot
from daskevo.types import Attempt

_AT_ONCE = 16


async def take_snapshot(served: ServedShard) -> ShardSnapshot:
    """Return a shard's snapshot: the folder is looked through first, then the state is taken."""
    files = None
    folder = served.files
    if folder is not None:
        found = await asyncio.to_thread(lambda: list(folder.segments()))
        files = tuple({FileView(file.model_id, file.attempt): None for file in found})
    return served.shard.snapshot(files)


async def over_among(session: Session, attempts: list[Attempt]) -> frozenset[Attempt]:
    """Ask the coordinator which attempts are over."""
    if not attempts:
        return frozenset()
    answers = await session.transport.coordinator(
        "over", timeout_s=CALL_TIMEOUT_S, attempts=[list(attempt) for attempt in attempts]
    )
    return frozenset(attempt for attempt, over in zip(attempts, answers, strict=True) if over)


async def audit_shard(served: ServedShard, session: Session, *, give_up_lost: bool = False) -> int:
    """Audit one shard; return how many drops and files it took; `give_up_lost` as in `remedies`.

    Raises
    ------
    ClusterError
        If the coordinator gives no answer.
    ShardFenced
        If the shard has another owner.
    """
    snapshot = await take_snapshot(served)
    claims = claims_of(snapshot)
    over = await over_among(session, sorted({attempt for _, attempt in claims}))
    limit = asyncio.Semaphore(_AT_ONCE)

    async def verdict(claim: Claim) -> Reply | None:
        question = question_to_home(claim)
        if question is None:
            return None
        async with limit:
            try:
                shard = await session.directory.shard_of(question.model)
                (reply,) = await session.directory.ask(shard, [question], CALL_TIMEOUT_S)
            except (ClusterError, RepositoryError):
                return None
            return reply

    ended = [claim for claim in claims if claim[1] in over]
    verdicts = dict(zip(ended, await asyncio.gather(*map(verdict, ended)), strict=True))
    found = remedies(snapshot, over, verdicts, give_up_lost=give_up_lost)
    if found.drops:
        await served.ask(found.drops)
    if found.files and served.folder is not None:
        named = served.shard.state.references.alive
        files = [segment for segment in found.files if segment not in named]
        await asyncio.to_thread(partial(served.folder.delete, files, temporary=True))
    return len(found.drops) + len(found.files)
