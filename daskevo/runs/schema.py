"""The tables of a run's record.

One transaction per decision: a strategy's requests with its state, a report with the strategy's state and the labels
it changes. The rollback journal (emptied, not deleted: a wait for the disk less), not WAL: WAL needs memory shared
between processes, which network file systems don't have.
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
"""`labels` holds changes that are decided and not yet carried out; `sessions` one row per process that went on with
the run."""

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
"""What Python gets of each column, by its name in a query. SQLite itself takes anything, whatever a table says; only an
event's number may be missing, which a query of others does not meet: those are keys."""
