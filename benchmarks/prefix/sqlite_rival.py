"""SQLite with an index over vertex ids: the inverted index that a database gives without further work."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from benchmarks.prefix.space import Model

_ID_BYTES = 16


def fill(models: Sequence[Model], ranks: Sequence[float]) -> sqlite3.Connection:
    """Return a database in memory that holds models."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE vertices (id BLOB, model INTEGER, PRIMARY KEY (id, model)) WITHOUT ROWID")
    base.execute("CREATE TABLE models (model INTEGER PRIMARY KEY, rank REAL)")
    with base:
        base.executemany("INSERT INTO models VALUES (?, ?)", enumerate(ranks))
        base.executemany(
            "INSERT INTO vertices VALUES (?, ?)",
            sorted((vertex_id, number) for number, model in enumerate(models) for vertex_id in split(model.ids)),
        )
    return base


def split(ids: bytes) -> list[bytes]:
    """Return joined ids one by one."""
    return [ids[start : start + _ID_BYTES] for start in range(0, len(ids), _ID_BYTES)]


def ask(base: sqlite3.Connection, model: Model) -> tuple[int, int]:
    """Return (number, score) of the best match: highest score, then highest rank, then youngest."""
    wanted = split(model.ids)
    found = base.execute(
        "SELECT vertices.model, COUNT(*) AS score FROM vertices JOIN models USING (model) "
        f"WHERE id IN ({', '.join('?' * len(wanted))}) GROUP BY vertices.model "
        "ORDER BY score DESC, rank DESC, vertices.model DESC LIMIT 1",
        wanted,
    ).fetchone()
    return found[0], found[1]
