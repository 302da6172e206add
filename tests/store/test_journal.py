"""Journals: what was written whole comes back, a torn tail is cut off, damage is never taken for one."""

from __future__ import annotations

import itertools
import json
import struct
import threading
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.store import journal as module
from daskevo.store.journal import Journal, journal_numbers, journal_path
from daskevo.store.journal_reader import JournalContent, read_journal

FILE_HEADER, RECORD_HEADER = 44, 32
HEAD: list[Any] = [{"head": n} for n in range(3)]
EVENTS: list[Any] = [{"event": n, "text": "ü\n\0" * n} for n in range(4)]


def _write(folder: Path, *, sync: bool = False, events: list[Any] = EVENTS, groups: bool = False) -> bytes:
    """Write journal 7 of shard 3 with HEAD and events; return its bytes."""
    journal_path(folder, 7).unlink(missing_ok=True)
    journal = Journal(folder, 3, 7, 2, sync=sync)
    journal.write_head(HEAD, base=5)
    if groups:
        journal.append(events)
    else:
        for event in events:
            journal.flush(journal.append([event]))
    journal.close()
    return journal_path(folder, 7).read_bytes()


def _read(folder: Path, data: bytes) -> JournalContent:
    journal_path(folder, 7).write_bytes(data)
    return read_journal(folder, 3, 7)


def _boundaries(data: bytes) -> list[int]:
    """Offsets at which a record starts, and the end."""
    places = [FILE_HEADER]
    while places[-1] < len(data):
        (length,) = struct.unpack_from("<I", data, places[-1] + 4)
        places.append(places[-1] + RECORD_HEADER + length)
    assert places[-1] == len(data)
    return places


def _refused(folder: Path, data: bytes, match: str = ".") -> CorruptRecord:
    with pytest.raises(CorruptRecord, match=match) as caught:
        _read(folder, data)
    assert caught.value.path == str(journal_path(folder, 7))
    assert 0 <= caught.value.offset <= len(data)
    return caught.value


@pytest.mark.parametrize("sync", [False, True])
def test_what_was_written_comes_back(tmp_path: Path, sync: bool) -> None:
    _write(tmp_path, sync=sync)
    content = read_journal(tmp_path, 3, 7)
    assert content == JournalContent(7, 2, 5, True, (*HEAD, *EVENTS), 0)
    assert journal_numbers(tmp_path) == [7]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
            max_leaves=6,
        ),
        max_size=6,
    )
)
def test_any_json_comes_back(tmp_path_factory: pytest.TempPathFactory, records: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("journal")
    _write(folder, events=records, groups=True)
    assert list(read_journal(folder, 3, 7).records[len(HEAD) :]) == records


def test_an_empty_journal_with_an_empty_head(tmp_path: Path) -> None:
    journal = Journal(tmp_path, 3, 7, 2, sync=False)
    assert not read_journal(tmp_path, 3, 7).complete
    journal.write_head([], base=0)
    assert read_journal(tmp_path, 3, 7) == JournalContent(7, 2, 0, True, (), 0)
    with pytest.raises(FileExistsError):
        Journal(tmp_path, 3, 7, 2, sync=False)
    journal.close()


def test_a_head_larger_than_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH_BYTES", 100)
    _write(tmp_path)
    assert read_journal(tmp_path, 3, 7).records == (*HEAD, *EVENTS)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("groups", [False, True])
def test_every_cut_recovers_all_records_before_it(tmp_path: Path, sync: bool, groups: bool) -> None:
    data = _write(tmp_path, sync=sync, groups=groups)
    places = _boundaries(data)
    everything = [*HEAD, None, *EVENTS]  # None: the head's end
    for length in range(len(data)):
        content = _read(tmp_path, data[:length])
        whole = sum(place <= length for place in places) - 1
        assert list(content.records) == [record for record in everything[: max(whole, 0)] if record is not None]
        assert content.complete == (whole > len(HEAD))
        assert content.torn_bytes == length - max((place for place in places if place <= length), default=0)


def test_every_cut_with_zeros_after_it_is_a_torn_tail(tmp_path: Path) -> None:
    """A host that crashes may leave a file that is longer than what reached the disk."""
    data = _write(tmp_path)
    places = _boundaries(data)
    last = places[-2]
    for length in range(last, len(data)):
        content = _read(tmp_path, data[:length] + bytes(len(data) - length))
        assert content.records == (*HEAD, *EVENTS[:-1])
    assert _read(tmp_path, data + bytes(5000)).records == (*HEAD, *EVENTS)


@pytest.mark.parametrize("sync", [False, True])
def test_every_flipped_bit_is_an_error(tmp_path: Path, sync: bool) -> None:
    data = bytearray(_write(tmp_path, sync=sync))
    for place in range(len(data)):
        for bit in (0, 7):
            data[place] ^= 1 << bit
            _refused(tmp_path, bytes(data))
            data[place] ^= 1 << bit
    assert _read(tmp_path, bytes(data)).records == (*HEAD, *EVENTS)


@pytest.mark.parametrize("sync", [False, True])
def test_lost_middles_are_errors_not_tails(tmp_path: Path, sync: bool) -> None:
    """Zeros, or nothing, where a flushed record was, with valid records after it."""
    data = _write(tmp_path, sync=sync)
    places = _boundaries(data)
    for start, end in itertools.pairwise(places[:-1]):
        _refused(tmp_path, data[:start] + bytes(end - start) + data[end:], "had been flushed")
        error = _refused(tmp_path, data[:start] + data[end:], "belongs")
        assert error.offset == start
        # Half of it gone, the rest in place: a page that was lost.
        _refused(tmp_path, data[: start + 40] + bytes(max(0, end - start - 40)) + data[max(end, start + 40) :])
    _refused(tmp_path, data[: places[2]] + data[places[1] :], "belongs")


def test_a_hole_in_what_was_never_flushed_is_a_torn_tail(tmp_path: Path) -> None:
    """With fsync, pages of one unflushed group reach the disk in any order; none of it was ever answered."""
    data = _write(tmp_path, sync=True, groups=True)
    places = _boundaries(data)
    start, end = places[len(HEAD) + 2 : len(HEAD) + 4]
    assert _read(tmp_path, data[:start] + bytes(end - start) + data[end:]).records == (*HEAD, EVENTS[0])
    flushed = _write(tmp_path, sync=True)
    start, end = _boundaries(flushed)[len(HEAD) + 2 : len(HEAD) + 4]
    _refused(tmp_path, flushed[:start] + bytes(end - start) + flushed[end:], "had been flushed")


def test_records_of_another_journal_do_not_pass(tmp_path: Path) -> None:
    data = _write(tmp_path)
    other = Journal(tmp_path, 3, 8, 2, sync=False)
    other.write_head(HEAD, base=5)
    for event in EVENTS:
        other.append([event])
    other.close()
    foreign = journal_path(tmp_path, 8).read_bytes()
    places = _boundaries(data)
    assert places == _boundaries(foreign)
    _refused(tmp_path, data[: places[-2]] + foreign[places[-2] :])


def test_other_files_and_versions(tmp_path: Path) -> None:
    data = _write(tmp_path)
    _refused(tmp_path, b"PK\x03\x04" + bytes(100), "no journal starts with")
    _refused(tmp_path, b"{}", "no journal starts with")
    later = bytearray(data)
    later[8] = 2
    error = _refused(tmp_path, bytes(later), "format version 2")
    assert error.offset == 8
    for number in (7, 9):
        journal_path(tmp_path, number).write_bytes(data)
    with pytest.raises(CorruptRecord, match="journal 7 of shard 3"):
        read_journal(tmp_path, 3, 9)
    with pytest.raises(CorruptRecord, match="journal 7 of shard 3"):
        read_journal(tmp_path, 4, 7)
    with pytest.raises(FileNotFoundError):
        read_journal(tmp_path, 3, 10)


def _forged(data: bytes, kind: bytes, payload: bytes, length: int | None = None) -> bytes:
    """A journal with one more record, its checksums all right."""
    seed = zlib.crc32(data[: FILE_HEADER - 4])
    count = len(_boundaries(data)) - 1
    header = struct.pack(
        "<3scIQQI",
        b"\x9eEV",
        kind,
        len(payload) if length is None else length,
        count,
        count,
        zlib.crc32(payload, seed),
    )
    return data + header + struct.pack("<I", zlib.crc32(header, seed)) + payload


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"NaN", b"1e999", b"\xff", b"[" * 100_000, b"9" * 5000, b'{"a":Infinity}']
)
def test_payloads_that_are_not_json(tmp_path: Path, payload: bytes) -> None:
    data = _write(tmp_path)
    error = _refused(tmp_path, _forged(data, b"r", payload), "JSON")
    assert error.offset == len(data) + RECORD_HEADER


def test_kinds_out_of_place(tmp_path: Path) -> None:
    data = _write(tmp_path)
    assert _read(tmp_path, _forged(data, b"r", b"1")).records[-1] == 1
    for kind in (b"h", b"e", b"x"):
        _refused(tmp_path, _forged(data, kind, b"{}"), "out of place")
    head = data[: _boundaries(data)[len(HEAD)]]
    _refused(tmp_path, _forged(head, b"r", b"{}"), "out of place")
    _refused(tmp_path, _forged(head, b"e", b'{"records":2}'), "the head's end says")


def test_a_huge_length_allocates_nothing(tmp_path: Path) -> None:
    data = _write(tmp_path)
    tracemalloc.start()
    try:
        _refused(tmp_path, _forged(data, b"r", b"{}", length=2**32 - 1))
        # Within the limit, but beyond the file: a torn tail.
        assert _read(tmp_path, _forged(data, b"r", b"{}", length=64 << 20)).torn_bytes == RECORD_HEADER + 2
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("record", [float("nan"), object(), {1, 2}, b"bytes", {(1,): 1}])
def test_what_is_not_json_is_refused_and_leaves_nothing(tmp_path: Path, record: Any) -> None:
    journal = Journal(tmp_path, 3, 7, 2, sync=False)
    journal.write_head([], base=0)
    with pytest.raises(InvalidInput, match="JSON"):
        journal.append([{"good": 1}, record])
    journal.append([{"next": 1}])
    journal.close()
    assert read_journal(tmp_path, 3, 7).records == ({"next": 1},)


def test_a_record_above_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORD_BYTES", 100)
    journal = Journal(tmp_path, 3, 7, 2, sync=False)
    with pytest.raises(InvalidInput, match="above the limit of 100"):
        journal.append(["x" * 99])
    journal.close()


def test_threads_share_flushes_and_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, 3, 7, 2, sync=True)
    journal.write_head([], base=0)
    calls = []
    entered, go_on = threading.Event(), threading.Event()
    fsync = module.os.fsync

    def slow(handle: int) -> None:
        calls.append(handle)
        entered.set()
        go_on.wait(60)
        fsync(handle)

    monkeypatch.setattr(module.os, "fsync", slow)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(journal.flush, journal.append(["first"]))
        assert entered.wait(60)
        others = [pool.submit(journal.flush, journal.append([n])) for n in range(8)]
        go_on.set()
        for future in [first, *others]:
            future.result()
    assert len(calls) == 2
    journal.close()
    assert sorted(map(json.dumps, read_journal(tmp_path, 3, 7).records)) == sorted(
        map(json.dumps, ["first", *range(8)])
    )


def test_numbers_of_a_folder(tmp_path: Path) -> None:
    for name in (
        "journal.1",
        "journal.12",
        "journal.3",
        "journal.03",
        "journal.x",
        "journal.",
        "journal.4.tmp",
        "epoch",
    ):
        (tmp_path / name).write_bytes(b"")
    assert journal_numbers(tmp_path) == [12, 3, 1]
