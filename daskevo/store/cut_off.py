"""Detect journals that end in the middle of a record: an incomplete copy, a full disk, a crashed host.

Readers leave the incomplete record out, as one that was never answered. But if the file was complete once, and the copy
of it is not, later records are missing without a trace, so users are warned.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from daskevo.store.journal import journal_path
from daskevo.store.journal_reader import JournalContent
from daskevo.store.shard_state import read_state, shard_path

AGAIN_S = 0.05
"""Time after which a running writer has completed its record, in seconds."""

SHOWN = 3
"""Most shards whose damage is described in full."""


def read_whole(root: str | os.PathLike[str], shard: int) -> tuple[JournalContent | None, str]:
    """Return the journal with a shard's state, and a description of its cut-off last record; empty if it is complete.

    Raises
    ------
    CorruptRecord, RootUnusable
        As :func:`daskevo.store.shard_state.read_state`.
    """
    content = read_state(root, shard)
    if content is None or not content.torn_bytes:
        return content, ""
    time.sleep(AGAIN_S)
    again = read_state(root, shard)
    if again is None or (again.number, again.torn_bytes) != (content.number, content.torn_bytes):
        return again, ""  # it has changed meanwhile: a writer is running
    path = journal_path(shard_path(root, shard), again.number)
    return again, f"{path} ends in the middle of a record, of which {again.torn_bytes} bytes are there"


def say_damage(root: str | os.PathLike[str], damage: Mapping[int, str]) -> str:
    """Describe the damage of a repository in a few sentences, with advice.

    Parameters
    ----------
    damage:
        Shard -> description.
    """
    shown = "; ".join(f"shard {shard}: {words.rstrip('.')}" for shard, words in sorted(damage.items())[:SHOWN])
    more = f"; and {len(damage) - SHOWN} more shards" if len(damage) > SHOWN else ""
    return (
        f"{root} looks damaged, and models may be missing in what is said of it: {shown}{more}. `daskevo verify` says "
        "what is lost; if this is a copy, copy it again"
    )
