"""The SQLite tables of a run's record.

Each decision is one transaction: a strategy's requests; or a report with the strategy's population and the label
changes. The rollback journal is truncated rather than deleted (one fsync less). It is not WAL, because WAL needs shared
memory between processes, which network file systems don't have.
"""

from __future__ import annotations

FILE = "run.sqlite"
VERSION = 1

TABLES = """
CREATE TABLE IF NOT EXISTS requests (
    number INTEGER PRIMARY KEY, model_id TEXT NOT NULL UNIQUE, request TEXT NOT NULL, identity TEXT, asked REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS reports (
    number INTEGER NOT NULL REFERENCES requests(number), step INTEGER NOT NULL, status TEXT NOT NULL, quality REAL,
    report TEXT NOT NULL, reported REAL NOT NULL, PRIMARY KEY (number, step)
);
CREATE TABLE IF NOT EXISTS units (
    key TEXT PRIMARY KEY, kind TEXT NOT NULL, numbers TEXT NOT NULL, worker TEXT, state TEXT NOT NULL, estimated_s REAL,
    submitted REAL NOT NULL, started REAL, ended REAL
);
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, number INTEGER, message TEXT NOT NULL, facts TEXT
    NOT NULL
);
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS labels (
    id INTEGER PRIMARY KEY, action TEXT NOT NULL, label TEXT NOT NULL, model_id TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY, opened REAL NOT NULL, last REAL NOT NULL, process TEXT NOT NULL, ended TEXT
);
"""
"""`labels` holds label changes that are decided and not carried out yet; `sessions` has one row per process."""

_NUMBER, _SECONDS, _TEXT, _NOTHING = (int,), (int, float), (str,), (type(None),)
TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "step", "count"), _NUMBER),
    **dict.fromkeys(("time", "reported", "submitted", "opened", "last"), _SECONDS),
    **dict.fromkeys(("estimated_s", "started", "ended"), _SECONDS + _NOTHING),
    **dict.fromkeys(("request", "report", "status", "key", "kind", "numbers", "state", "message", "facts"), _TEXT),
    **dict.fromkeys(("value", "action", "label", "model_id", "process"), _TEXT),
    **dict.fromkeys(("identity", "worker", "how"), _TEXT + _NOTHING),
    "number": _NUMBER + _NOTHING,
}
"""Python types of each column, by its name in queries; SQLite itself accepts any type. `number` may be missing only in
events; in the other tables it is a key."""
