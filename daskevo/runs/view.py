"""Read a run's record, while the run is running or later."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from daskevo.errors import CorruptRecord, InvalidInput, RunFolderUnusable
from daskevo.runs.folder import RunInfo, read_info
from daskevo.runs.full_disk import needs_room
from daskevo.runs.not_a_run import SALVAGE, no_run, other_version
from daskevo.runs.run_state import LabelChange
from daskevo.runs.schema import FILE, TYPES, VERSION
from daskevo.search import Report, Request
from daskevo.types import JSON, ModelId, check_name

BUSY_S = 10.0
"""Seconds that a reader waits for the writer's lock; a write takes milliseconds."""

LOOKED_AT = ("PRAGMA user_version", "PRAGMA schema_version")
"""Statements that fail on a file that is not an SQLite database, whatever its tables."""


class Event(NamedTuple):
    """An event of a run. `time` is in seconds since the epoch; `number` is the request's, if it concerns one."""

    time: float
    kind: str
    number: int | None
    message: str
    facts: JSON


class UnitRow(NamedTuple):
    """The state of a unit of work; times in seconds since the epoch."""

    key: str
    kind: str
    numbers: tuple[int, ...]
    worker: str | None
    state: str
    estimated_s: float | None
    submitted: float
    started: float | None
    ended: float | None


class SessionRow(NamedTuple):
    """One process that ran this run. `ended` says how it stopped; None = killed, or still running."""

    opened: float
    last: float
    process: str
    ended: str | None


class RunView:
    """A run's folder, opened for reading.

    Parameters
    ----------
    folder:
        The run's folder.

    Raises
    ------
    RunFolderUnusable
        If it holds no run, or one that can't be read.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        info = read_info(self.folder)
        if info is None:
            raise no_run(self.folder)
        self.info: RunInfo = info
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._connection = self._connect()

    def _connect(self) -> sqlite3.Connection:
        path = self.folder / FILE
        try:
            # Open for writing where that is allowed: a killed run leaves a journal that the first reader must roll
            # back.
            connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=BUSY_S)
            return of_this_version(checked(connection, "PRAGMA query_only = 1", *LOOKED_AT), path)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise RunFolderUnusable(
                    f"{path} has been locked by another process for {BUSY_S:g} s: see what holds it, or try again",
                    path=str(path),
                ) from error
            return self._connect_to_copy(path)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise RunFolderUnusable(f"{path} can't be read: {error}; {SALVAGE}", path=str(path)) from error

    def _connect_to_copy(self, path: Path) -> sqlite3.Connection:
        """Open a copy of the record: in a read-only folder the journal could not be rolled back."""
        self._scratch = tempfile.TemporaryDirectory(prefix="daskevo-run-")
        copy = Path(self._scratch.name) / FILE
        try:
            with needs_room(copy.parent):
                shutil.copyfile(path, copy)
                # With its journal, or the copy would have what a killed process had half written.
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(path.with_name(f"{FILE}-journal"), copy.with_name(f"{FILE}-journal"))
                return of_this_version(checked(sqlite3.connect(copy), *LOOKED_AT), path)
        except (OSError, sqlite3.DatabaseError) as error:
            self._scratch.cleanup()
            raise RunFolderUnusable(f"{path} can't be read: {error}; {SALVAGE}", path=str(path)) from error
        except BaseException:
            self._scratch.cleanup()
            raise

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Read a consistent snapshot: the writer of the run waits until this block ends.

        For example, each report read has its request. Writers wait for up to 30 s, so read and leave.
        """
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            # An error may have ended the transaction already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the record."""
        self._connection.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def __enter__(self) -> RunView:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _rows(self, query: str, *values: object) -> Iterator[tuple[JSON, ...]]:
        try:
            found = self._connection.execute(query, values)
            # All at once: a cursor that is not read to its end holds a lock, and the run could not write meanwhile.
            rows = found.fetchall()
        except sqlite3.DatabaseError as error:
            raise CorruptRecord(f"the record of the run in {self.folder} can't be read: {error}; {SALVAGE}") from error
        names = [name for name, *_ in found.description]
        # SQLite keeps whatever a damaged page holds, of any type; callers shall not fail in arithmetic later.
        types = [TYPES[name] for name in names]
        for row in rows:
            if not all(map(isinstance, row, types)):
                self._say_odd(names, row)
            yield row

    def _say_odd(self, names: Sequence[str], row: Sequence[object]) -> NoReturn:
        held = zip(names, row, strict=True)
        name, value = next((name, value) for name, value in held if not isinstance(value, TYPES[name]))
        raise CorruptRecord(
            f"the record of the run in {self.folder} can't be read: it has {value!r:.120} for {name!r}; {SALVAGE}"
        )

    def requests(self) -> list[Request]:
        """Return all requests, in the order in which they were asked."""
        return [
            Request.from_json(_parse(text)) for (text,) in self._rows("SELECT request FROM requests ORDER BY number")
        ]

    def identities(self) -> dict[int, str]:
        """Return the identity of each request, by number, as far as known."""
        return dict(self._rows("SELECT number, identity FROM requests WHERE identity IS NOT NULL"))

    def reports(self) -> list[Report]:
        """Return all reports, in the order in which they came."""
        return [Report.from_json(_parse(text)) for (text,) in self._rows("SELECT report FROM reports ORDER BY rowid")]

    def report_times(self) -> dict[int, float]:
        """Return when each report was stored, by number, in seconds since the epoch."""
        return dict(self._rows("SELECT number, max(reported) AS reported FROM reports GROUP BY number"))

    def units(self) -> list[UnitRow]:
        """Return all units of work, in the order in which they were submitted."""
        columns = "key, kind, numbers, worker, state, estimated_s, submitted, started, ended"
        return [
            UnitRow(row[0], row[1], _numbers(row[2]), *row[3:])
            for row in self._rows(f"SELECT {columns} FROM units ORDER BY rowid")
        ]

    def unit_counts(self) -> dict[str, dict[str, int]]:
        """Return how many units there are of each kind, by their state."""
        found: dict[str, dict[str, int]] = {}
        for kind, state, units in self._rows("SELECT kind, state, count(*) AS count FROM units GROUP BY kind, state"):
            found.setdefault(kind, {})[state] = units
        return found

    def events(self, kind: str | None = None) -> list[Event]:
        """Return the events, oldest first; of all kinds, or of one."""
        where, values = ("", ()) if kind is None else (" WHERE kind = ?", (kind,))
        return [
            Event(time, word, number, message, _parse(facts))
            for time, word, number, message, facts in self._rows(
                f"SELECT time, kind, number, message, facts FROM events{where} ORDER BY id", *values
            )
        ]

    def sessions(self) -> list[SessionRow]:
        """Return the processes that ran this run, first to last."""
        return [
            SessionRow(*row)
            for row in self._rows("SELECT opened, last, process, ended AS how FROM sessions ORDER BY id")
        ]

    @property
    def runtime_s(self) -> float:
        """Seconds during which a process ran this run, up to the last write of each."""
        return sum(session.last - session.opened for session in self.sessions())

    def label_changes(self) -> list[tuple[int, LabelChange]]:
        """Return the label changes that are still due in the repository, in order, with their numbers."""
        return [
            (number, LabelChange(action, label, _model(name)))
            for number, action, label, name in self._rows("SELECT id, action, label, model_id FROM labels ORDER BY id")
        ]

    def population(self) -> list[ModelId]:
        """Return the models of the strategy's population as of the last report, oldest first."""
        for (text,) in self._rows("SELECT value FROM state WHERE name = 'population'"):
            value = _parse(text)
            if isinstance(value, list):
                return [_model(name) for name in value]
            raise CorruptRecord(f"the population of the run's record is no list: {text!r:.120}")
        return []


def _model(name: object) -> ModelId:
    try:
        return ModelId(check_name(name))
    except InvalidInput as error:
        raise CorruptRecord(f"the run's record names a model that can't be one: {error.message}") from error


def _numbers(text: str) -> tuple[int, ...]:
    value = _parse(text)
    if isinstance(value, list) and all(type(number) is int for number in value):
        return tuple(value)
    raise CorruptRecord(f"a unit of the run's record has no list of numbers: {text!r:.120}")


def of_this_version(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Return the connection if this daskevo can read the record's version; otherwise close it.

    Raises
    ------
    RunFolderUnusable
        If it has another version; the message says which, and what to do.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(connection.close)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            raise other_version(path, version)
        # Fails if the version is all that is intact.
        connection.execute("SELECT count(*) FROM requests").fetchone()
        stack.pop_all()
    return connection


def checked(connection: sqlite3.Connection, *statements: str) -> sqlite3.Connection:
    """Run statements on a connection and return it; close it if one fails."""
    try:
        for statement in statements:
            connection.execute(statement).fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _parse(text: str) -> JSON:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptRecord(f"a row of the run's record is not JSON: {text!r:.120}") from error
