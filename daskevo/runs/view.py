"""A read-only view of a run, while it is running or after: for reports, progress and programs."""

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
from daskevo.runs.book import LabelChange
from daskevo.runs.folder import RunInfo, read_info
from daskevo.runs.not_a_run import SALVAGE, no_run, other_version
from daskevo.runs.schema import FILE, TYPES, VERSION
from daskevo.search import Report, Request
from daskevo.types import JSON, ModelId, check_name

BUSY_S = 10.0
"""How long who reads waits for who writes, who takes milliseconds."""

LOOKED_AT = ("PRAGMA user_version", "PRAGMA schema_version")
"""What tells a database from anything else, whatever tables it has."""


class Event(NamedTuple):
    """Something that happened in a run. `time` in seconds since the epoch; `number` of the request, if one is meant."""

    time: float
    kind: str
    number: int | None
    message: str
    facts: JSON


class UnitRow(NamedTuple):
    """What became of a unit of work; times in seconds since the epoch."""

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
    """One process that carried the run on. `ended` says how it stopped; None = killed, or still running."""

    opened: float
    last: float
    process: str
    ended: str | None


class RunView:
    """Read a run's folder.

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
            # Opened for writing where that's allowed: a killed run leaves a journal that the first reader must roll
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
        """Open a copy of the record: the folder may only be read, and a journal there couldn't be rolled back."""
        self._scratch = tempfile.TemporaryDirectory(prefix="daskevo-run-")
        copy = Path(self._scratch.name) / FILE
        try:
            shutil.copyfile(path, copy)
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
        """Read all of one moment: what a process that carries the run on writes meanwhile waits until this ends.

        So a request whose report was read is there, and so on. A writer waits for up to 30 s: read, and leave.
        """
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
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
            rows = found.fetchall()
        except sqlite3.DatabaseError as error:
            raise CorruptRecord(f"the record of the run in {self.folder} can't be read: {error}; {SALVAGE}") from error
        names = [name for name, *_ in found.description]
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
        """Return what each request computes, by number, as far as known."""
        return dict(self._rows("SELECT number, identity FROM requests WHERE identity IS NOT NULL"))

    def reports(self) -> list[Report]:
        """Return all reports, in the order in which they came."""
        return [Report.from_json(_parse(text)) for (text,) in self._rows("SELECT report FROM reports ORDER BY rowid")]

    def report_times(self) -> dict[int, float]:
        """Return when each report came, by number, in seconds since the epoch."""
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
        """Return what happened, oldest first; all kinds, or one."""
        where, values = ("", ()) if kind is None else (" WHERE kind = ?", (kind,))
        return [
            Event(time, word, number, message, _parse(facts))
            for time, word, number, message, facts in self._rows(
                f"SELECT time, kind, number, message, facts FROM events{where} ORDER BY id", *values
            )
        ]

    def sessions(self) -> list[SessionRow]:
        """Return the processes that carried the run on, first to last."""
        return [
            SessionRow(*row)
            for row in self._rows("SELECT opened, last, process, ended AS how FROM sessions ORDER BY id")
        ]

    @property
    def runtime_s(self) -> float:
        """Seconds during which a process carried the run on, up to the last thing each recorded."""
        return sum(session.last - session.opened for session in self.sessions())

    def label_changes(self) -> list[tuple[int, LabelChange]]:
        """Return the label changes still to be carried out in the repository, in order, with their numbers."""
        return [
            (number, LabelChange(action, label, _model(name)))
            for number, action, label, name in self._rows("SELECT id, action, label, model_id FROM labels ORDER BY id")
        ]

    def population(self) -> list[ModelId]:
        """Return the models of the strategy's population at the last report, oldest first."""
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
    """Return a connection to a record that this daskevo reads; closed if it doesn't.

    Raises
    ------
    RunFolderUnusable
        If it is of another version: which, and what to do.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(connection.close)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            raise other_version(path, version)
        connection.execute("SELECT count(*) FROM requests").fetchone()
        stack.pop_all()
    return connection


def checked(connection: sqlite3.Connection, *statements: str) -> sqlite3.Connection:
    """Return a connection on which some statements work; closed if one doesn't."""
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
