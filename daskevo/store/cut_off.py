"""Journals that end in the middle of a record: a copy that was broken off, a disk that was full, a host that crashed.

Whoever reads such a journal leaves the broken record out, as what was never answered. If the file was whole once, what
came after it is gone without a trace, so whoever looks is told.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from daskevo.store.journal import journal_path
from daskevo.store.journal_reader import JournalContent
from daskevo.store.shard_state import read_state, shard_path

AGAIN_S = 0.05
"""A writer that is in the middle of a record has ended it after so long."""

SHOWN = 3
"""Shards whose damage is said in full, at most."""


def read_whole(root: str | os.PathLike[str], shard: int) -> tuple[JournalContent | None, str]:
    """Return the journal that makes a shard's state, and where its last record is cut off, in words; empty if it isn't.

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
        return again, ""  # a writer is at it
    path = journal_path(shard_path(root, shard), again.number)
    return again, f"{path} ends in the middle of a record, of which {again.torn_bytes} bytes are there"


def say_damage(root: str | os.PathLike[str], damage: Mapping[int, str]) -> str:
    """Say in a few sentences what looks damaged in a repository, and what to do.

    Parameters
    ----------
    damage:
        Shard -> words.
    """
    shown = "; ".join(f"shard {shard}: {words.rstrip('.')}" for shard, words in sorted(damage.items())[:SHOWN])
    more = f"; and {len(damage) - SHOWN} more shards" if len(damage) > SHOWN else ""
    return (
        f"{root} looks damaged, and models may be missing in what is said of it: {shown}{more}. `daskevo verify` says "
        "what is lost; if this is a copy, copy it again"
    )
