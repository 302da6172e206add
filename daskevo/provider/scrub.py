"""Scrub of a provider's shards: find damaged or missing tensors by reading every byte, and files that nothing uses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from daskevo.errors import CorruptRecord, RootUnusable
from daskevo.protocol.codec import numbers_of, runs
from daskevo.protocol.references import numbers_in
from daskevo.provider.served_shard import ServedShard
from daskevo.store.disk_inventory import FolderContents, recount_root, recount_shard, remove_leftover
from daskevo.store.losses import Loss, merged, read_losses, write_losses
from daskevo.types import Attempt, ModelId
from daskevo.wire.to_the_end import to_the_end

if TYPE_CHECKING:
    from daskevo.provider.host import ShardHost


async def check_segments(host: ShardHost, mend: bool = False) -> list[list[Any]]:
    """Read every living tensor, in memory and on disk, and compare it with its record.

    Parameters
    ----------
    mend:
        Serve readers from the disk where the copy in memory is damaged and the one on the disk is not.

    Returns
    -------
    ``[owner, runs of the numbers of lost tensors, description, whether it was mended]`` for each damage. There are no
    numbers if nothing is lost: the disk does not answer, or only the copy in memory is damaged.
    """
    wrong: list[list[Any]] = []
    for served in host.in_order():
        for model_id, attempt in list(served.shard.state.references.alive):
            found = await served.damage(model_id, attempt, mend=mend)
            if host.shards.get(served.number) is not served:
                break  # the shard has moved, and its new provider checks it
            # Leave out tensors that were freed while others were read or mended: they are no damage.
            alive = numbers_in(served.shard.state.references.alive.get((model_id, attempt), 0))
            gone = {number: words for number, words in found.gone.items() if number in alive}
            if gone:
                wrong.append([model_id, runs(gone), gone[min(gone)], False])
            if alive and (found.unread or found.served_wrong):
                wrong.append([model_id, [], found.unread or found.served_wrong, mend and not found.unread])
    return wrong


async def losses(host: ShardHost) -> list[Any]:
    """Return the losses that repairs have marked in the provider's shards; a text for marks that can't be read."""
    found: list[Any] = []
    for served in host.in_order():
        try:
            found += [loss.to_json() for loss in await _losses(host, served)]
        except CorruptRecord as error:
            found.append(error.message)
    return found


async def _losses(host: ShardHost, served: ServedShard) -> list[Loss]:
    files = served.files
    if files is None:
        return host.lost_in_memory.get(served.number, [])
    return await asyncio.to_thread(read_losses, files.path)


async def mark_lost(host: ShardHost, shard: int, lost: Sequence[Any]) -> bool | None:
    """Replace the marks of a shard's lost tensors by `lost`, items ``[owner, runs of numbers, description]``."""
    found = [(ModelId(owner), numbers_of(numbers), str(words)) for owner, numbers, words in lost]

    async def work(served: ServedShard) -> bool:
        async with served.marking:
            try:
                known = await _losses(host, served)
            except CorruptRecord:
                known = []  # unreadable marks are replaced
            marks = merged(known, found)
            folder = served.folder
            if folder is None:
                host.lost_in_memory[shard] = marks
                return True

            def write() -> None:
                folder.check()  # a fenced owner must not overwrite marks of the next owner
                write_losses(folder.path, marks, sync=host.root is not None and host.root.durability == "synced")

            await asyncio.to_thread(write)
            return True

    # Not cancellable: a cancelled caller would release `marking` while the thread still writes, and the next call
    # would read the old marks.
    return await host.with_shard(shard, lambda served: to_the_end(work(served)))  # type: ignore[no-any-return]


async def lost_of(host: ShardHost, shard: int, model: str) -> list[Any] | None:
    """Return the marks on the tensors of one owner."""

    async def work(served: ServedShard) -> list[Any]:
        return [loss.to_json() for loss in await _losses(host, served) if loss.owner == model]

    return await host.with_shard(shard, work)  # type: ignore[no-any-return]


async def recount(host: ShardHost, older_s: float, remove: bool = False) -> dict[str, Any]:
    """List the files of the root and of this provider's shards.

    Parameters
    ----------
    older_s:
        Age from which temporary files count as leftovers, in seconds.
    remove:
        Whether to delete leftovers.

    Returns
    -------
    ``root`` (the same from every provider; None for a repository in memory) and ``shards``, each
    ``[file bytes, [[leftover, bytes], ...], [foreign, ...]]`` with paths under the root.
    """
    root = host.root
    if root is None:
        return {"root": None, "shards": []}
    # The states are read here: on the event loop nothing changes them, in the thread below they could change.
    owned = [(served, _published(served)) for served in host.in_order() if served.files is not None]

    def look() -> dict[str, Any]:
        whole = recount_root(root.path, root.shards, older_s)
        shards = [recount_shard(served.files.path, published, older_s) for served, published in owned]  # type: ignore[union-attr]
        if remove:
            for found in (whole, *shards):
                with contextlib.suppress(RootUnusable):  # the next recount lists the files that are still there
                    remove_leftover(found)
        return {"root": _wire(root.path, whole), "shards": [_wire(root.path, found) for found in shards]}

    return await asyncio.to_thread(look)


def _published(served: ServedShard) -> frozenset[tuple[ModelId, Attempt]]:
    return frozenset((model_id, model.record.attempt) for model_id, model in served.shard.state.models.items())


def _wire(root: Any, found: FolderContents) -> list[Any]:
    leftover = [[str(path.relative_to(root)), nbytes] for path, nbytes in found.leftover.items()]
    return [found.file_bytes, leftover, [str(path.relative_to(root)) for path in found.foreign]]


RECOUNTING: Mapping[str, Callable[..., Any]] = {
    "check_segments": check_segments,
    "losses": losses,
    "mark_lost": mark_lost,
    "lost_of": lost_of,
    "recount": recount,
}
"""Name of the operation -> function of the host and its arguments."""
