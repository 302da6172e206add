"""Hostile files: what is done to which file of the golden ones, which error must name it, and why it was tried.

Each is made from a good file by a few lines, checksums included where the reader must look deeper than at them.
"""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

from daskevo.store import journal, segment

Change = Callable[[bytes], bytes]


class Case(NamedTuple):
    """`file` becomes `change(file)`; a line of the outcome must start with `error` and hold `says`."""

    name: str
    file: str
    change: Change
    error: str
    says: str
    why: str


def put(data: bytes) -> Change:
    return lambda _: data


def as_json(**fields: Any) -> Change:
    def change(data: bytes) -> bytes:
        return json.dumps({**json.loads(data), **fields}).encode()

    return change


def without(name: str) -> Change:
    def change(data: bytes) -> bytes:
        value = json.loads(data)
        del value[name]
        return json.dumps(value).encode()

    return change


def at(offset: int, new: bytes) -> Change:
    return lambda data: data[:offset] + new + data[offset + len(new) :]


def cut(count: int) -> Change:
    return lambda data: data[:count]


def header(change: Callable[[dict[str, Any]], Any]) -> Change:
    """Change a segment's header, with lengths and checksum as they must be."""

    def rewrite(data: bytes) -> bytes:
        _, _, _, length = segment.PREAMBLE.unpack_from(data)
        start = segment.PREAMBLE.size
        value = json.loads(data[start : start + length])
        payload = data[-(-(start + length) // 64) * 64 : -segment.TRAILER.size]
        changed = change(value)
        text = json.dumps(value if changed is None else changed).encode()
        front = segment.PREAMBLE.pack(segment.MAGIC, 1, 0, len(text)) + text
        front = front.ljust(-(-len(front) // 64) * 64, b"\0")
        size = len(front) + len(payload) + segment.TRAILER.size
        crc = zlib.crc32(size.to_bytes(8, "little"), zlib.crc32(front))
        return front + payload + segment.TRAILER.pack(size, crc, 0, segment.END_MAGIC)

    return rewrite


def records(change: Callable[[list[Any]], Any]) -> Change:
    """Change a journal's records, with numbers and checksums as they must be: a list of [kind, payload as JSON]."""

    def rewrite(data: bytes) -> bytes:
        front, place, rows = data[: journal.FILE_HEADER.size], journal.FILE_HEADER.size, []
        while place < len(data):
            _, kind, length, *_ = journal.RECORD_HEADER.unpack_from(data, place)
            place += journal.RECORD_HEADER.size + length
            rows.append([kind, json.loads(data[place - length : place])])
        change(rows)
        seed = struct.unpack("<I", front[-4:])[0]
        out = front
        for sequence, (kind, value) in enumerate(rows):
            payload = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
            head = journal.RECORD_HEADER.pack(
                journal.MARKER, kind, len(payload), sequence, sequence, zlib.crc32(payload, seed), 0
            )[:-4]
            out += head + zlib.crc32(head, seed).to_bytes(4, "little") + payload
        return out

    return rewrite


POPULATION = "INSERT OR REPLACE INTO state (name, value) VALUES ('population', ?)"


def row(statement: str, *values: Any) -> Change:
    """Change a run's record by a statement of SQL."""

    def change(data: bytes) -> bytes:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(data)
            connection.execute(statement, values)
            connection.commit()
            return connection.serialize()

    return change


def last(**fields: Any) -> Change:
    """Append a record to a journal."""
    return records(lambda rows: rows.append([b"r", fields]))


def staged(**fields: Any) -> Change:
    """Change the model's record in the first record of a journal that stages one."""

    def change(rows: list[Any]) -> None:
        row = next(value for _, value in rows if value.get("kind") == "Staged")
        row["record"].update(fields)

    return records(change)


SEGMENT, JOURNAL = "root/shards/000/segments/third.1-5.seg", "root/shards/000/journal.1"
RECORD = "run/run.sqlite"
EPOCH, LOST = "root/shards/000/epoch", "root/shards/000/lost.json"
DEEP = b"[" * 100_000
HUGE = (1 << 62).to_bytes(8, "little")


def tensor(index: int, value: Any) -> Change:
    def change(found: dict[str, Any]) -> None:
        found["tensors"][0][index] = value

    return header(change)


DAMAGED, TENSOR, UNUSABLE = "damaged shard", "damaged tensor", "RunFolderUnusable"
LEFT_OUT = "unusable record"
CASES = (
    # segments
    Case("segment-empty", SEGMENT, put(b""), TENSOR, "too few", "a file that was created and never written"),
    Case("segment-other", SEGMENT, put(b"PK\3\4" * 99), TENSOR, "no segment file starts", "a file of another kind"),
    Case("segment-pickle", SEGMENT, put(b"\x80\x04cos\nsystem\n(S'x'\ntR." * 9), TENSOR, "no segment", "code"),
    Case("segment-later", SEGMENT, at(8, b"\2"), TENSOR, "written by a later version", "a later daskevo's"),
    Case("segment-version-0", SEGMENT, at(8, b"\0"), TENSOR, "format version 0", "no version there ever was"),
    Case("segment-header-huge", SEGMENT, at(16, HUGE), TENSOR, "header of 4611686018427387904", "claims 4 EiB"),
    Case("segment-cut", SEGMENT, cut(300), TENSOR, "cut", "a copy that was stopped"),
    Case("segment-flipped", SEGMENT, at(30, b"\xff"), TENSOR, "CRC-32", "one byte of the header"),
    Case("segment-list", SEGMENT, header(lambda v: [1]), TENSOR, "lacks meta", "JSON of another form"),
    Case("segment-no-tensors", SEGMENT, header(lambda v: v.pop("tensors") and None), TENSOR, "lacks", "a field less"),
    Case("segment-payload-text", SEGMENT, header(lambda v: v.update(payload_bytes="9")), TENSOR, "payload", "a type"),
    Case("segment-payload-huge", SEGMENT, header(lambda v: v.update(payload_bytes=2**62)), TENSOR, "payload", "size"),
    Case("segment-number-text", SEGMENT, tensor(0, "0"), TENSOR, "", "a type"),
    Case("segment-number-twice", SEGMENT, tensor(0, 1), TENSOR, "", "one tensor twice"),
    Case("segment-shape-huge", SEGMENT, tensor(1, [2**40, 2**40]), TENSOR, "", "claims memory"),
    Case("segment-shape-minus", SEGMENT, tensor(1, [-1]), TENSOR, "", "a negative length"),
    Case("segment-dtype-object", SEGMENT, tensor(2, "object"), TENSOR, "", "pickled objects"),
    Case("segment-dtype-void", SEGMENT, tensor(2, "V99999999"), TENSOR, "", "claims memory by its dtype"),
    Case("segment-offset-huge", SEGMENT, tensor(3, 2**62), TENSOR, "", "beyond the file"),
    Case("segment-offset-odd", SEGMENT, tensor(3, 1), TENSOR, "", "not aligned"),
    Case("segment-digest", SEGMENT, tensor(4, "0" * 32), TENSOR, "isn't what was written", "a forged digest"),
    Case("segment-digest-path", SEGMENT, tensor(4, "../../etc/passwd"), TENSOR, "", "no digest"),
    Case("segment-other-model", SEGMENT, header(lambda v: v.update(meta=None)), TENSOR, "this is the segment", "moved"),
    # journals
    Case("journal-empty", JOURNAL, put(b""), DAMAGED, "served once", "a served shard without a state"),
    Case("journal-other", JOURNAL, put(b"PK\3\4" * 99), DAMAGED, "no journal starts", "a file of another kind"),
    Case("journal-later", JOURNAL, at(8, b"\2"), DAMAGED, "written by a later version", "a later daskevo's"),
    Case("journal-flipped", JOURNAL, at(20, b"\xff"), DAMAGED, "CRC-32", "one byte"),
    Case("journal-length-huge", JOURNAL, at(48, b"\xff\xff\xff\x7f"), DAMAGED, "CRC-32", "a record of 2 GiB"),
    Case("journal-deep", JOURNAL, records(lambda r: r.append([b"r", DEEP])), DAMAGED, "isn't JSON", "a deep stack"),
    Case("journal-utf8", JOURNAL, records(lambda r: r.append([b"r", b'"\xff"'])), DAMAGED, "isn't JSON", "no UTF-8"),
    Case("journal-nan", JOURNAL, records(lambda r: r.append([b"r", b"NaN"])), DAMAGED, "isn't JSON", "no JSON"),
    Case("journal-number", JOURNAL, records(lambda r: r.append([b"r", 7])), DAMAGED, "expected a journal", "a type"),
    Case("journal-kind-later", JOURNAL, last(kind="Moved"), DAMAGED, "written by a later version", "a new kind"),
    Case("journal-kind-list", JOURNAL, last(kind=["Put"]), DAMAGED, "expected a journal record", "a type"),
    Case("journal-field", JOURNAL, last(kind="Retired"), DAMAGED, "", "a field less"),
    Case("journal-path", JOURNAL, last(kind="Retired", model="../../x"), DAMAGED, "", "a path for a name"),
    Case("journal-unknown", JOURNAL, last(kind="Retired", model="nobody"), LEFT_OUT, "never published", "out of order"),
    Case("journal-scope", JOURNAL, staged(scope="../x"), LEFT_OUT, "", "a path for a name"),
    Case("journal-attempt", JOURNAL, staged(attempt=[1, 2**80]), LEFT_OUT, "", "a number beyond 64 bits"),
    Case("journal-own-huge", JOURNAL, staged(own=[[0, [[2**61], "float32"]]]), LEFT_OUT, "", "claims memory"),
    Case(
        "journal-runs", JOURNAL, last(kind="Retired", model="third", extra=[0, 2**60]), LEFT_OUT, "", "a surplus field"
    ),
    # small files of the root
    Case("epoch-later", EPOCH, as_json(format=2), "", "", "only its owner reads it: replaced by the next"),
    Case("repository-later", "root/repository.json", as_json(format=2), "LaterVersion", "later version", "later"),
    Case("repository-empty", "root/repository.json", put(b""), "CorruptRecord", "isn't JSON", "never written"),
    Case("repository-deep", "root/repository.json", put(DEEP), "CorruptRecord", "isn't JSON", "a deep stack"),
    Case("repository-long", "root/repository.json", put(b" " * (2 << 20)), "CorruptRecord", "more than", "size"),
    Case("repository-utf16", "root/repository.json", put(b"\xff\xfe{\0"), "CorruptRecord", "isn't JSON", "encoding"),
    Case("repository-true", "root/repository.json", as_json(shards=True), "CorruptRecord", "no description", "a type"),
    Case("repository-many", "root/repository.json", as_json(shards=10**9), "CorruptRecord", "no desc", "a billion"),
    Case(
        "repository-fewer", "root/repository.json", as_json(shards=1), "CorruptRecord", "never changes", "other count"
    ),
    Case("served-later", "root/served.json", as_json(format=2), "LaterVersion", "later version", "later"),
    Case("served-text", "root/served.json", as_json(shards="2"), "CorruptRecord", "no number of shards", "a type"),
    Case("scopes-later", "root/scopes.json", as_json(format=2), "LaterVersion", "later version", "later"),
    Case("scopes-list", "root/scopes.json", as_json(scopes=[]), "CorruptRecord", "no scopes", "a type"),
    Case("scopes-number", "root/scopes.json", as_json(scopes={"a": 1}), "CorruptRecord", "no scopes", "a type"),
    Case("scopes-name", "root/scopes.json", as_json(scopes={"../x": None}), "", "", "a name that nobody can ask for"),
    Case("cluster-deep", "root/cluster.json", put(DEEP), "", "", "for people: a damaged one is as good as none"),
    Case("lost-text", LOST, put(b'{"format": 1, "lost": "all"}'), "damaged marks", "no list of lost", "a type"),
    Case(
        "lost-path",
        LOST,
        put(b'{"format":1,"lost":[{"owner":"../x","tensors":[0,1],"since":"","found":""}]}'),
        "damaged marks",
        "ASCII letters",
        "a path for a name",
    ),
    Case(
        "lost-runs",
        LOST,
        put(b'{"format":1,"lost":[{"owner":"x","tensors":[0,99999999999],"since":"","found":""}]}'),
        "damaged marks",
        "runs",
        "claims memory",
    ),
    Case("lost-later", LOST, put(b'{"format": 2}'), "damaged marks", "later version", "later"),
    # the lease, where it has not been given back
    Case("lease-later", "root/generation.2", put(b'{"format": 2}'), "LaterVersion", "later version", "later"),
    Case(
        "lease-holder",
        "root/generation.2",
        put(b'{"format":1,"generation":2,"holder":{}}'),
        "CorruptRecord",
        "no holder",
        "fields less",
    ),
    Case("lease-deep", "root/generation.2", put(DEEP), "CorruptRecord", "isn't JSON", "a deep stack"),
    # runs
    Case("run-empty", "run/run.json", put(b""), UNUSABLE, "not what daskevo wrote", "never written"),
    Case("run-utf8", "run/run.json", put(b"\xff"), UNUSABLE, "not what daskevo wrote", "no UTF-8"),
    Case("run-later", "run/run.json", as_json(version=2), UNUSABLE, "written by a later version", "later"),
    Case("run-list", "run/run.json", put(b"[]"), UNUSABLE, "not what daskevo wrote", "a type"),
    Case("run-id", "run/run.json", as_json(id="../x"), UNUSABLE, "not what daskevo wrote", "a path for an id"),
    Case("run-identity", "run/run.json", as_json(identity=7), UNUSABLE, "not what daskevo wrote", "a type"),
    Case("run-deep", "run/run.json", put(DEEP), UNUSABLE, "not what daskevo wrote", "a deep stack"),
    Case("record-other", "run/run.sqlite", put(b"PK\3\4" * 999), UNUSABLE, "can't be read", "a file of another kind"),
    Case("record-cut", "run/run.sqlite", cut(5000), UNUSABLE, "can't be read", "a copy that was stopped"),
    *(
        Case(f"record-{name}-{what}", RECORD, row(f"UPDATE {name} SET {column} = ?", value), "CorruptRecord", "", what)
        for name, column in (
            ("requests", "request"),
            ("reports", "report"),
            ("units", "numbers"),
            ("events", "facts"),
        )
        for what, value in (("deep", "[" * 100_000), ("cut", "{"), ("bytes", b"\xff"), ("number", 7), ("path", "../x"))
        # Numbers are good JSON for what callers attach.
        if (what != "number" or name in ("requests", "reports", "units"))
    ),
    *(
        Case(f"record-population-{what}", RECORD, row(POPULATION, value), "CorruptRecord", "", what)
        for what, value in (
            ("deep", "[" * 100_000),
            ("cut", "{"),
            ("bytes", b"\xff"),
            ("number", 7),
            ("path", '["../x"]'),
        )
    ),
    Case("record-label", RECORD, row("UPDATE labels SET model_id = '../x'"), "CorruptRecord", "", "a path for a name"),
    Case(
        "record-later",
        RECORD,
        row("PRAGMA user_version = 2"),
        "RunFolderUnusable",
        "later daskevo",
        "may have other tables",
    ),
)
