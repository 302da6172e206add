"""Save the readable rows of a damaged record as a new run.

SQLite stops at the first damaged or missing page, although rows on other pages are intact. They are read one by one, by
rowid. The damaged run is not changed.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from daskevo.errors import DaskevoError, RunFolderUnusable
from daskevo.runs.folder import prepare_folder, read_info, write_info
from daskevo.runs.not_a_run import no_run
from daskevo.runs.schema import FILE, TABLES, TYPES, VERSION
from daskevo.search import Report, Request

GAP = 2_000
"""Unreadable rowids in a row after which a table ends, if its last rowid is not known."""

_ORDER = ("requests", "reports", "units", "events", "state", "labels", "sessions")


def salvage(folder: str | Path, to: str | Path) -> dict[str, int]:
    """Save the readable rows of a run's record in another folder.

    Parameters
    ----------
    folder:
        The run's folder. Its `run.json` must be intact: it is small, and describes the run.
    to:
        An empty or new folder; it becomes a run that can be viewed, reported and compared. It has no repository: the
        models stay where they are.

    Returns
    -------
    dict
        Number of saved rows by table.

    Raises
    ------
    RunFolderUnusable
        If `folder` holds no run, `to` holds something, or nothing of the record can be read.
    """
    source, target = Path(folder), Path(to)
    info = read_info(source)
    if info is None or not (source / FILE).exists():
        raise no_run(source)
    prepare_folder(target)
    if any(target.iterdir()):
        raise RunFolderUnusable(f"{target} holds something: name a folder that is empty, or new", path=str(target))
    with tempfile.TemporaryDirectory(prefix="daskevo-salvage-") as scratch:
        saved = _saved(source, target, Path(scratch) / FILE)
    # Without its request no report means anything.
    if not saved["requests"]:
        (target / FILE).unlink()
        raise RunFolderUnusable(f"nothing of {source / FILE} can be read: restore it from a copy", path=str(source))
    write_info(target, info)
    return saved


def _saved(source: Path, target: Path, copy: Path) -> dict[str, int]:
    # A copy, because to open a record is to roll back what a killed process left in its journal.
    shutil.copyfile(source / FILE, copy)
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(source / f"{FILE}-journal", copy.with_name(f"{FILE}-journal"))
    _lengthen(copy)
    saved = dict.fromkeys(_ORDER, 0)
    with (
        contextlib.closing(sqlite3.connect(copy)) as damaged,
        contextlib.closing(sqlite3.connect(target / FILE, isolation_level=None)) as whole,
    ):
        # Text that isn't UTF-8 must cost its row, not the whole table.
        damaged.text_factory = lambda found: found.decode("utf-8", "replace")
        whole.executescript(TABLES)
        whole.execute(f"PRAGMA user_version = {VERSION}")
        # One transaction: one fsync instead of one a row.
        whole.execute("BEGIN")
        for table in _ORDER:
            columns = [row[1] for row in whole.execute(f"PRAGMA table_info({table})")]
            names, places = ", ".join(columns), ", ".join("?" * (len(columns) + 1))
            for row in _rows(damaged, table, names):
                # Requests are copied before reports, which are kept only with their request.
                if _is_whole(table, columns, row[1:], whole):
                    made = whole.execute(f"INSERT OR IGNORE INTO {table} (rowid, {names}) VALUES ({places})", row)
                    saved[table] += made.rowcount
        whole.execute("COMMIT")
    return saved


def _lengthen(path: Path) -> None:
    """Extend a truncated file to the length in its header: SQLite refuses to open a shorter one."""
    with path.open("r+b") as file:
        head = file.read(32)
        if len(head) == 32:
            size = int.from_bytes(head[16:18], "big")
            wanted = (65536 if size == 1 else size) * int.from_bytes(head[28:32], "big")
            file.seek(0, 2)
            # Only up to a plausible size: a damaged header may say anything.
            if file.tell() < wanted <= 64 * max(file.tell(), 1 << 20):
                file.truncate(wanted)


def _rows(damaged: sqlite3.Connection, table: str, names: str) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a table with their rowids: from the front, from the end, then one by one in between."""
    # NOT INDEXED: the index may be what is damaged.
    select = f"SELECT rowid, {names} FROM {table} NOT INDEXED"
    last, first_after = 0, None
    with contextlib.suppress(sqlite3.DatabaseError):
        for row in damaged.execute(f"{select} ORDER BY rowid"):
            last = row[0]
            yield row
        return
    with contextlib.suppress(sqlite3.DatabaseError):
        for row in damaged.execute(f"{select} WHERE rowid > ? ORDER BY rowid DESC", (last,)):
            first_after = row[0]
            yield row
    number, missed = last + 1, 0
    while number < first_after if first_after is not None else missed < GAP:
        row = None
        with contextlib.suppress(sqlite3.DatabaseError):
            row = damaged.execute(f"{select} WHERE rowid = ?", (number,)).fetchone()
        missed = missed + 1 if row is None else 0
        if row is not None:
            yield row
        number += 1


def _is_whole(table: str, columns: list[str], row: tuple[object, ...], whole: sqlite3.Connection) -> bool:
    """Tell whether a row is one that daskevo wrote, and the row it refers to was saved too."""
    values = dict(zip(columns, row, strict=True))
    if not all(isinstance(value, TYPES[name]) for name, value in values.items() if name in TYPES):
        return False
    try:
        for name, read in (("request", Request.from_json), ("report", Report.from_json), ("facts", dict)):
            if name in values:
                read(json.loads(str(values[name])))
    except (ValueError, KeyError, TypeError, DaskevoError):
        return False
    if table != "reports":
        return True
    return whole.execute("SELECT 1 FROM requests WHERE number = ?", (values["number"],)).fetchone() is not None
