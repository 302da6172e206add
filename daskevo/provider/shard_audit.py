"""Audit of one shard, as its provider carries it out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from daskevo.client.directory import CALL_TIMEOUT_S
from daskevo.client.ended_attempts import batches, over_among
from daskevo.client.run_script import run_script
from daskevo.client.session import Session
from daskevo.errors import ClusterError, RepositoryError
from daskevo.protocol import scripts
from daskevo.protocol.messages import Message
from daskevo.protocol.replies import Reply
from daskevo.protocol.snapshot import FileView, ShardSnapshot
from daskevo.protocol.steps import AreOver, Calculate, DeleteFiles, OnOwnShard, Step, TakeSnapshot, Together
from daskevo.provider.served_shard import ServedShard

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


async def verdicts_of(session: Session, questions: Sequence[Message]) -> list[Reply | None]:
    """Ask the shards of ended attempts' models for a verdict, in batches; None where there is no answer."""
    verdicts: list[Reply | None] = [None] * len(questions)
    at_home: dict[int, list[int]] = {}
    for index, question in enumerate(questions):
        assert question.addressee is not None
        at_home.setdefault(await session.directory.shard_of(question.addressee), []).append(index)
    limit = asyncio.Semaphore(_AT_ONCE)

    async def ask(shard: int, some: Sequence[int]) -> None:
        async with limit:
            with contextlib.suppress(ClusterError, RepositoryError):
                replies = await session.directory.ask(shard, [questions[index] for index in some], CALL_TIMEOUT_S)
                for index, reply in zip(some, replies, strict=True):
                    verdicts[index] = reply

    await asyncio.gather(
        *(ask(shard, some) for shard, asked in at_home.items() for some in batches(asked, _QUESTIONS_AT_ONCE))
    )
    return verdicts


async def audit_shard(served: ServedShard, session: Session, *, give_up_lost: bool = False) -> int:
    """Carry out `scripts.audit` on one shard; return the number of drops and deleted files.

    Raises
    ------
    ClusterError
        If the coordinator gives no answer.
    ShardFenced
        If another provider owns the shard.
    """

    async def carry_out(step: Step) -> Any:
        match step:
            case TakeSnapshot():
                return await take_snapshot(served)
            case Calculate(work):
                # Steps that visit all models run in threads, so that the event loop answers messages meanwhile.
                return await asyncio.to_thread(work)
            case AreOver(attempts):
                return await over_among(session, attempts)
            case Together(questions):
                return await verdicts_of(session, questions)
            case OnOwnShard(drops):
                await served.ask(drops)
            case DeleteFiles(found) if served.folder is not None:
                # Look again: a put that ran during the audit may have named a file since the snapshot.
                named = served.shard.state.references.alive
                files = [segment for segment in found if segment not in named]
                await asyncio.to_thread(partial(served.folder.delete, files, temporary=True))
        return None

    return await run_script(scripts.audit(give_up_lost=give_up_lost), carry_out)
