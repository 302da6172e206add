"""Audit of one shard: drop the claims of attempts that have ended without publishing.

It asks the coordinator which attempts are over, and the shards of their models whether these were published. It runs
beside all other work. Without an answer, a claim stays (protocol.md, Ended attempts, audit).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

from daskevo.client.directory import CALL_TIMEOUT_S
from daskevo.client.ended_attempts import batches, over_among
from daskevo.client.session import Session
from daskevo.errors import ClusterError, RepositoryError
from daskevo.protocol.audit import claims_of, question_to_home, remedies
from daskevo.protocol.messages import Abort
from daskevo.protocol.references import Claim
from daskevo.protocol.replies import Reply
from daskevo.protocol.snapshot import FileView, ShardSnapshot
from daskevo.provider.served_shard import ServedShard

T = TypeVar("T")

_AT_ONCE = 4
"""Concurrent messages to other shards."""
_QUESTIONS_AT_ONCE = 256


async def take_snapshot(served: ServedShard) -> ShardSnapshot:
    """Return a shard's snapshot: list the folder first, then copy the state.

    In this order, a file that is not in the state is a leftover, or one whose put is still running.
    """
    files = None
    folder = served.files
    if folder is not None:
        found = await asyncio.to_thread(lambda: list(folder.segments()))
        files = tuple({FileView(file.model_id, file.attempt): None for file in found})
    return await served.snapshot(files)


async def verdicts_of(session: Session, claims: Iterable[Claim]) -> dict[Claim, Reply | None]:
    """Ask the shards of ended attempts' models for a verdict, in batches; None where there is no answer."""
    verdicts: dict[Claim, Reply | None] = {}
    at_home: dict[int, list[tuple[Claim, Abort]]] = {}
    for claim in claims:
        verdicts[claim] = None
        question = question_to_home(claim)
        if question is not None:
            at_home.setdefault(await session.directory.shard_of(question.model), []).append((claim, question))
    limit = asyncio.Semaphore(_AT_ONCE)

    async def ask(shard: int, some: Sequence[tuple[Claim, Abort]]) -> None:
        async with limit:
            with contextlib.suppress(ClusterError, RepositoryError):
                replies = await session.directory.ask(shard, [question for _, question in some], CALL_TIMEOUT_S)
                verdicts.update(zip((claim for claim, _ in some), replies, strict=True))

    await asyncio.gather(
        *(ask(shard, some) for shard, asked in at_home.items() for some in batches(asked, _QUESTIONS_AT_ONCE))
    )
    return verdicts


async def audit_shard(served: ServedShard, session: Session, *, give_up_lost: bool = False) -> int:
    """Audit one shard; return the number of drops and deleted files; `give_up_lost` as in `remedies`.

    Raises
    ------
    ClusterError
        If the coordinator gives no answer.
    ShardFenced
        If another provider owns the shard.
    """
    snapshot = await take_snapshot(served)
    # Steps that visit all models run in threads, so that the event loop answers messages meanwhile.
    claims = await asyncio.to_thread(claims_of, snapshot)
    over = await over_among(session, sorted({attempt for _, attempt in claims}))
    verdicts = await verdicts_of(session, [claim for claim in claims if claim[1] in over])
    found = await asyncio.to_thread(partial(remedies, snapshot, over, verdicts, give_up_lost=give_up_lost))
    if found.drops:
        await served.ask(found.drops)
    if found.files and served.folder is not None:
        # Look again: a put that ran during the audit may have named a file since the snapshot.
        named = served.shard.state.references.alive
        files = [segment for segment in found.files if segment not in named]
        await asyncio.to_thread(partial(served.folder.delete, files, temporary=True))
    return len(found.drops) + len(found.files)
