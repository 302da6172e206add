"""The writable record of a run: an SQLite file with exactly one writer."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from daskevo.errors import CorruptRecord, RunFolderUnusable
from daskevo.runs.begun_anew import begins_anew, empty
from daskevo.runs.folder import (
    RunInfo,
    check_repository,
    copied_from,
    new_info,
    prepare_folder,
    read_info,
    write_info,
)
from daskevo.runs.full_disk import needs_room
from daskevo.runs.mismatch import check_identity
from daskevo.runs.not_a_run import SALVAGE, copy_of, other_version, without_description
from daskevo.runs.planner import Unit
from daskevo.runs.run_lock import locked
from daskevo.runs.run_state import LabelChange
from daskevo.runs.schema import FILE, TABLES, VERSION
from daskevo.runs.view import RunView, checked
from daskevo.search import Report, Request
from daskevo.types import JSON, ModelId

_Execute = Callable[..., sqlite3.Cursor]


class RunRecord(RunView):
    """Open a run to continue it, or create a new one. A second writer is refused.

    Parameters
    ----------
    folder:
        The run's folder; created if it doesn't exist.
    identity:
        What identifies the run (see :data:`daskevo.runs.mismatch.IDENTIFYING`).
    about:
        Further facts, such as the repository that the run belongs to (see :class:`daskevo.runs.folder.RunInfo`).
    was_put:
        Tells whether the repository knows a model. If given, a run without results (nothing finished, no model put) is
        started afresh under another id when its problem has changed since: the problem has been mended.

    Raises
    ------
    RunMismatch
        If the folder holds a different run, or one that belongs to another repository.
    RunFolderUnusable
        If it can't be written, has another format, misses a part or is damaged, or another process is running it.
    """

    def __init__(
        self,
        folder: str | Path,
        identity: Mapping[str, JSON],
        about: Mapping[str, JSON] | None = None,
        *,
        was_put: Callable[[ModelId], bool] | None = None,
    ) -> None:
        path, failed = Path(folder), ""
        self._unit_ends: list[tuple[str, float | None, float, str]] = []
        self._unit_places: list[tuple[str, str]] = []
        with contextlib.ExitStack() as stack, needs_room(path):
            prepare_folder(path)
            # The lock comes first: everything below reads and then writes the folder.
            stack.enter_context(locked(path))
            info = read_info(path)
            if info is not None:
                check_repository(path, info.about, about or {})
                _refuse_copy(path, info, about or {})
                if was_put is not None and begins_anew(path, info.identity, identity, was_put):
                    info, failed = None, empty(path)
                else:
                    check_identity(path, info.identity, identity)
            self.resumed = info is not None
            _prepare_tables(path, resumed=self.resumed)
            if info is None:
                # After the tables: `run.json` is what makes the folder a run, so a kill before this line leaves none.
                write_info(path, new_info(path, identity, about or {}))
            elif about:
                # The repository and the run's folder may both have been moved since.
                now_about = {**info.about, "repository": about.get("repository"), "folder": str(path.resolve())}
                if now_about != info.about:
                    write_info(path, replace(info, about=now_about))
            super().__init__(path)
            # Not `self.close`, which writes how the session ended: there is none before the next transaction.
            stack.callback(super().close)
            with self._transaction() as execute:
                now = time.time()
                row = execute(
                    "INSERT INTO sessions (opened, last, process) VALUES (?, ?, ?)",
                    (now, now, f"{os.getpid()} on {socket.gethostname()}"),
                )
                self.session = int(row.lastrowid or 0)
                """Number of this session, from 1."""
                # Of a process that was killed: nobody will say how these ended.
                execute("UPDATE units SET state = 'lost' WHERE state = 'submitted'")
            if failed:
                self.event("begun anew", failed)
            self._stack = stack.pop_all()

    def _connect(self) -> sqlite3.Connection:
        return checked(
            sqlite3.connect(self.folder / FILE, timeout=30, isolation_level=None),
            # TRUNCATE and FULL: see `schema` for why there is no WAL. A report must survive a power failure.
            "PRAGMA journal_mode = TRUNCATE",
            "PRAGMA synchronous = FULL",
        )

    def close(self, ended: str = "closed") -> None:
        """Close the record and store how the session ended."""
        # The stack, which frees the lock, is left last, also if the disk is full: the next process can go on.
        with self._stack, self._transaction() as execute:
            execute("UPDATE sessions SET ended = ? WHERE id = ?", (ended, self.session))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[_Execute]:
        try:
            with needs_room(self.folder):
                # The write lock at once: a transaction that asks for it in its middle may be refused instead of
                # waiting.
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection.execute
                    self._write_unit_notes()
                    # The first transaction makes the session's row.
                    if hasattr(self, "session"):
                        now = time.time()
                        self._connection.execute("UPDATE sessions SET last = ? WHERE id = ?", (now, self.session))
                except BaseException:
                    # SQLite has already rolled back if the file is damaged or the disk is full.
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
                # Only now: what was rolled back is written with the next transaction.
                self._unit_places.clear()
                self._unit_ends.clear()
        except sqlite3.DatabaseError as error:
            # These two are bugs of the caller, not the state of the file.
            if isinstance(error, (sqlite3.IntegrityError, sqlite3.ProgrammingError)):
                raise
            if not isinstance(error, sqlite3.OperationalError):
                raise CorruptRecord(
                    f"the run's record {self.folder / FILE} is damaged: {error}; {SALVAGE}",
                    path=str(self.folder),
                ) from error
            raise RunFolderUnusable(
                f"the run's record {self.folder / FILE} can't be written: {error}; nothing recorded before is lost",
                path=str(self.folder),
            ) from error

    def asked(self, requests: Sequence[Request]) -> None:
        """Store the requests that a strategy asked for."""
        now = time.time()
        with self._transaction() as execute:
            for request in requests:
                execute(
                    "INSERT INTO requests (number, model_id, request, asked) VALUES (?, ?, ?, ?)",
                    (request.number, request.model_id, _dump(request.to_json()), now),
                )

    def planned(self, identities: Mapping[int, str], units: Sequence[Unit]) -> None:
        """Store the identities of requests, and the units about to be submitted (:meth:`unit_placed`: where to)."""
        now = time.time()
        with self._transaction() as execute:
            for number, identity in identities.items():
                execute("UPDATE requests SET identity = ? WHERE number = ?", (identity, number))
            for unit in units:
                execute(
                    "INSERT OR REPLACE INTO units (key, kind, numbers, state, estimated_s, submitted) "
                    "VALUES (?, ?, ?, 'submitted', ?, ?)",
                    (unit.key, unit.kind, _dump(list(unit.numbers)), unit.estimated_s, now),
                )

    def unit_ended(self, key: str, state: str, started: float | None = None, ended: float | None = None) -> None:
        """Note how a unit ended: ``done``, ``failed``, ``cancelled`` or ``lost``; written with the next transaction.

        A transaction of its own would mean one more fsync per unit, and nothing on resume depends on these notes.
        """
        self._unit_ends.append((state, started, time.time() if ended is None else ended, key))

    def unit_placed(self, key: str, worker: str) -> None:
        """Note the trainer of a unit; written like :meth:`unit_ended`."""
        self._unit_places.append((worker, key))

    def _write_unit_notes(self) -> None:
        for place in self._unit_places:
            self._connection.execute("UPDATE units SET worker = ? WHERE key = ?", place)
        for row in self._unit_ends:
            self._connection.execute("UPDATE units SET state = ?, started = ?, ended = ? WHERE key = ?", row)

    def reported(self, report: Report, population: Sequence[ModelId], labels: Sequence[LabelChange]) -> None:
        """Store a report, the strategy's population after it, and the label changes that follow, in one transaction."""
        with self._transaction() as execute:
            execute(
                "INSERT INTO reports (number, step, status, quality, report, reported) VALUES (?, ?, ?, ?, ?, ?)",
                (report.number, report.step, report.status, report.quality, _dump(report.to_json()), time.time()),
            )
            execute("INSERT OR REPLACE INTO state (name, value) VALUES ('population', ?)", (_dump(list(population)),))
            for change in labels:
                execute(
                    "INSERT INTO labels (action, label, model_id) VALUES (?, ?, ?)",
                    (change.action, change.label, change.model_id),
                )

    def labels_changed(self, numbers: Sequence[int]) -> None:
        """Delete label changes that have been carried out."""
        with self._transaction() as execute:
            for number in numbers:
                # After the repository has them. A kill in between repeats them on resume, which changes nothing.
                execute("DELETE FROM labels WHERE id = ?", (number,))

    def event(self, kind: str, message: str, number: int | None = None, **facts: JSON) -> None:
        """Store an event."""
        with self._transaction() as execute:
            execute(
                "INSERT INTO events (time, kind, number, message, facts) VALUES (?, ?, ?, ?, ?)",
                (time.time(), kind, number, message, _dump(facts)),
            )


def check_record(folder: Path) -> None:
    """Check, without changing anything, that a folder holds either no run or one with description and record.

    A new :class:`RunRecord` checks this too; this check runs before a cluster is started for the run.

    Raises
    ------
    RunFolderUnusable
        If one of the two is missing or can't be read.
    """
    if read_info(folder) is not None:
        RunView(folder).close()
        return
    path, sessions = folder / FILE, 0
    if path.exists():
        with contextlib.suppress(sqlite3.DatabaseError), contextlib.closing(_read_only(path)) as connection:
            (sessions,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
    if sessions:
        raise without_description(folder)


def _refuse_copy(folder: Path, info: RunInfo, about: Mapping[str, JSON]) -> None:
    if (home := copied_from(folder, info, about.get("repository"))) is not None:
        raise copy_of(folder, home)


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=30)


def _prepare_tables(folder: Path, *, resumed: bool) -> None:
    """Create the tables of a new run, or check that those of a resumed run are there and intact.

    Tables are created before `run.json`: if `run.json` exists without them, the record was lost, not never written.
    """
    path = folder / FILE
    if resumed and not path.exists():
        raise RunFolderUnusable(
            f"{path} is missing: {folder / 'run.json'} says that a run was begun here, and its record is gone; restore "
            "it from a copy, or use another folder for a new run",
            path=str(path),
        )
    try:
        connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        with needs_room(folder), contextlib.closing(connection):
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in ((VERSION,) if resumed else (0, VERSION)):
                raise other_version(path, version)
            if version:
                _check_whole(connection, path)
            connection.executescript(TABLES)
            if not resumed and connection.execute("SELECT count(*) FROM sessions").fetchone()[0]:
                raise without_description(folder)
            # Last: a process killed before leaves version 0, and the next one makes the tables again.
            connection.execute(f"PRAGMA user_version = {VERSION}")
    except sqlite3.DatabaseError as error:
        raise RunFolderUnusable(
            f"{path} can't be used: {error}; {SALVAGE}",
            path=str(path),
        ) from error


def _check_whole(connection: sqlite3.Connection, path: Path) -> None:
    """Check that every page and index of the record is intact before anything is written to it."""
    # 1: the first fault is enough, and looking for all of them takes longer.
    (first, *_), *_ = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if first != "ok":
        raise RunFolderUnusable(
            f"{path} is damaged ({' '.join(str(first).split())[:200]}); {SALVAGE}",
            path=str(path),
        )


def _dump(value: JSON) -> str:
    return json.dumps(value, allow_nan=False)
