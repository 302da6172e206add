"""Segment files: round trips, ranges, and every way in which a file can be cut, damaged or hostile."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import CorruptRecord, InvalidInput, RootUnusable
from daskevo.store import segment_writer
from daskevo.store.files import begin_writeback
from daskevo.store.pack import ALIGNMENT
from daskevo.store.segment import END_MAGIC, MAGIC, Segment
from daskevo.store.segment_writer import write_segment
from daskevo.testing.arrays import awkward_arrays, same_tensor

SMALL: dict[int, Any] = {0: np.arange(5, dtype=np.int16), 2: np.float32(1.5), 3: np.zeros((3, 0, 2))}


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("mapped", [False, True])
def test_awkward_arrays_in_one_file(tmp_path: Path, sync: bool, mapped: bool) -> None:
    arrays = dict(enumerate(awkward_arrays().values()))
    written = write_segment(tmp_path / "a.seg", arrays, {"note": ["x", 1]}, sync=sync)
    segment = Segment.open(tmp_path / "a.seg")
    assert segment == written
    assert segment.meta == {"note": ["x", 1]}
    assert segment.tensor_bytes == sum(np.asarray(array).nbytes for array in arrays.values())
    assert segment.file_bytes == (tmp_path / "a.seg").stat().st_size
    found = segment.read(mapped=mapped)
    assert found.keys() == arrays.keys()
    for number, array in arrays.items():
        assert same_tensor(found[number], array)
        assert found[number].ctypes.data % ALIGNMENT == 0
        assert not found[number].flags.writeable
    segment.verify()
    assert os.listdir(tmp_path) == ["a.seg"]


def test_each_alone(tmp_path: Path) -> None:
    for name, array in awkward_arrays().items():
        write_segment(tmp_path / "a.seg", {7: array})
        assert same_tensor(Segment.open(tmp_path / "a.seg").read([7])[7], array), name


def test_what_is_synced_goes_to_the_disk_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    sizes = (9_000_001, 5, 0, 20_000_003, 4_000_000)
    arrays = {number: rng.integers(0, 255, size, np.uint8) for number, size in enumerate(sizes)}
    begun: list[tuple[int, int]] = []

    def begin(handle: int, offset: int, nbytes: int) -> None:
        # What the disk begins with is in the file already, and the file still open.
        assert os.fstat(handle).st_size >= offset + nbytes
        begun.append((offset, nbytes))
        begin_writeback(handle, offset, nbytes)

    monkeypatch.setattr(segment_writer, "begin_writeback", begin)
    write_segment(tmp_path / "plain.seg", arrays)
    assert not begun
    segment = write_segment(tmp_path / "synced.seg", arrays, sync=True)
    assert (tmp_path / "synced.seg").read_bytes() == (tmp_path / "plain.seg").read_bytes()
    end = segment.payload
    for offset, nbytes in sorted(begun):
        assert offset == end
        end += nbytes
    assert end == segment.payload + segment.payload_bytes
    assert len(begun) > 3


def test_ranges(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    arrays = {number: rng.integers(0, 255, int(rng.integers(0, 9000)), np.uint8) for number in range(3000)}
    segment = write_segment(tmp_path / "a.seg", arrays)
    for _ in range(10):
        numbers = rng.choice(3000, int(rng.integers(0, 1500)), replace=False).tolist()
        found = segment.read(numbers)
        assert found.keys() == set(numbers)
        assert all((found[number] == arrays[number]).all() for number in numbers)
    assert segment.read([]) == {}
    with pytest.raises(KeyError):
        segment.read([0, 3000])


def test_a_read_array_pins_only_its_own_memory(tmp_path: Path) -> None:
    segment = write_segment(tmp_path / "a.seg", {0: np.zeros(1, np.int8), 1: np.zeros(1 << 20, np.int8)})
    tracemalloc.start()
    try:
        kept = segment.read()[0]
        assert tracemalloc.get_traced_memory()[0] < 1 << 19
    finally:
        tracemalloc.stop()
    assert kept.nbytes == 1


def test_no_tensors(tmp_path: Path) -> None:
    write_segment(tmp_path / "a.seg", {})
    segment = Segment.open(tmp_path / "a.seg")
    segment.verify()
    assert segment.read() == {}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_segment(tmp_path / "a.seg", SMALL)
    before = (tmp_path / "a.seg").read_bytes()
    with pytest.raises(InvalidInput):
        write_segment(tmp_path / "a.seg", {0: np.array(["text"])})
    with pytest.raises(InvalidInput):
        write_segment(tmp_path / "a.seg", SMALL, meta=float("nan"))
    assert (tmp_path / "a.seg").read_bytes() == before
    with pytest.raises(RootUnusable) as caught:
        write_segment(tmp_path / "gone" / "a.seg", SMALL)
    assert caught.value.folder == str(tmp_path / "gone")
    assert caught.value.needed_bytes > 0
    assert os.listdir(tmp_path) == ["a.seg"]


def test_the_bytes_are_those_of_the_document(tmp_path: Path) -> None:
    """Written by hand from docs/formats.md, independently of the writer."""
    write_segment(tmp_path / "a.seg", {1: np.array([1, 2], "<u2")}, None)
    import xxhash

    values = b"\x01\x00\x02\x00"
    header = json.dumps(
        {"meta": None, "payload_bytes": 64, "tensors": [[1, [2], "uint16", 0, xxhash.xxh3_128_hexdigest(values)]]},
        separators=(",", ":"),
    ).encode()
    front = b"\x89EVSEG\r\n" + struct.pack("<IIQ", 1, 0, len(header)) + header
    front += b"\0" * (-len(front) % 64)
    total = len(front) + 64 + 24
    crc = zlib.crc32(front + struct.pack("<Q", total))
    expected = front + values.ljust(64, b"\0") + struct.pack("<QII", total, crc, 0) + b"EVSEGEND"
    assert (tmp_path / "a.seg").read_bytes() == expected


def _bytes(tmp_path: Path) -> bytes:
    write_segment(tmp_path / "good.seg", SMALL, {"m": 1})
    return (tmp_path / "good.seg").read_bytes()


def _refused(path: Path, data: bytes, match: str = ".") -> CorruptRecord:
    """Open and verify; return the one error, which must name file and place."""
    path.write_bytes(data)
    with pytest.raises(CorruptRecord, match=match) as caught:
        Segment.open(path).verify()
    assert caught.value.path == str(path)
    assert type(caught.value.offset) is int
    assert 0 <= caught.value.offset <= len(data)
    assert str(path) in str(caught.value)
    return caught.value


def test_every_truncation(tmp_path: Path) -> None:
    data = _bytes(tmp_path)
    for length in range(len(data)):
        _refused(tmp_path / "a.seg", data[:length])


def test_every_flipped_bit(tmp_path: Path) -> None:
    data = bytearray(_bytes(tmp_path))
    for place in range(len(data)):
        data[place] ^= 1 << place % 8
        _refused(tmp_path / "a.seg", bytes(data))
        data[place] ^= 1 << place % 8
    (tmp_path / "a.seg").write_bytes(data)
    Segment.open(tmp_path / "a.seg").verify()


def test_bytes_after_the_end(tmp_path: Path) -> None:
    data = _bytes(tmp_path)
    _refused(tmp_path / "a.seg", data + b"\0")
    _refused(tmp_path / "a.seg", data + data)


def test_other_files(tmp_path: Path) -> None:
    _refused(tmp_path / "a.seg", b"PK\x03\x04" + bytes(1000), "no segment file starts with")
    _refused(tmp_path / "a.seg", bytes(1000), "no segment file starts with")
    (tmp_path / "a.seg").unlink()
    with pytest.raises(CorruptRecord, match="no such file"):
        Segment.open(tmp_path / "a.seg")
    with pytest.raises(RootUnusable):
        Segment.open(tmp_path / "gone" / "a.seg")
    (tmp_path / "folder.seg").mkdir()
    with pytest.raises(RootUnusable):
        Segment.open(tmp_path / "folder.seg")


def test_a_later_version_is_named(tmp_path: Path) -> None:
    data = bytearray(_bytes(tmp_path))
    data[8] = 2
    error = _refused(tmp_path / "a.seg", bytes(data), "format version 2")
    assert error.offset == 8
    assert "Use a daskevo that reads it" in str(error)


def _forged(header: bytes, payload: bytes = b"", length: int | None = None) -> bytes:
    """A file whose checksums are all right, whatever its header says."""
    front = MAGIC + struct.pack("<IIQ", 1, 0, len(header) if length is None else length) + header
    front += b"\0" * (-len(front) % 64)
    total = len(front) + len(payload) + 24
    crc = zlib.crc32(front + struct.pack("<Q", total))
    return front + payload + struct.pack("<QII", total, crc, 0) + END_MAGIC


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 2**40, 1 << 20, 100])
def test_a_huge_header_length_allocates_nothing(tmp_path: Path, length: int) -> None:
    tracemalloc.start()
    try:
        _refused(tmp_path / "a.seg", _forged(b"{}", length=length))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"\xff\xfe",
        b"{" * 50_000,
        b"[" * 50_000,
        b'{"meta":NaN,"payload_bytes":0,"tensors":[]}',
        b'{"meta":1e999,"payload_bytes":0,"tensors":[]}',
        b'{"meta":' + b"9" * 5000 + b',"payload_bytes":0,"tensors":[]}',
        b'{"meta":0,"payload_bytes":64,"tensors":[]}',
        b'{"meta":0,"payload_bytes":-64,"tensors":[]}',
        b'{"meta":0,"payload_bytes":"0","tensors":[]}',
        b'{"meta":0,"payload_bytes":0,"tensors":{}}',
        b'{"meta":0,"payload_bytes":0,"tensors":[[0,[1099511627776],"float64",0,"00000000000000000000000000000000"]]}',
        b'{"meta":0,"payload_bytes":0,"tensors":[[0,[1],"object",0,"00000000000000000000000000000000"]]}',
    ],
)
def test_forged_headers_are_refused_before_anything_is_allocated(tmp_path: Path, header: bytes) -> None:
    tracemalloc.start()
    try:
        _refused(tmp_path / "a.seg", _forged(header))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_a_forged_file_with_an_honest_header_is_a_file(tmp_path: Path) -> None:
    """So that the test above fails for the headers' sake."""
    (tmp_path / "a.seg").write_bytes(_forged(b'{"meta":0,"payload_bytes":0,"tensors":[]}'))
    Segment.open(tmp_path / "a.seg").verify()


def test_a_file_replaced_after_its_header_was_read(tmp_path: Path) -> None:
    segment = write_segment(tmp_path / "a.seg", SMALL)
    write_segment(tmp_path / "a.seg", SMALL | {9: np.arange(100)})
    with pytest.raises(CorruptRecord, match="replaced"):
        segment.read()


CUT_MEANWHILE = """
import os, sys
from types import SimpleNamespace
import numpy as np
import xxhash
from daskevo.errors import CorruptRecord
from daskevo.store import segment
from daskevo.store.segment_writer import write_segment

path = sys.argv[1]
written = write_segment(path, {number: np.arange(1_200_000.0) for number in range(2)})

def cut_and_hash(data):
    os.truncate(path, 5000)
    return xxhash.xxh3_128_hexdigest(data)

segment.xxhash = SimpleNamespace(xxh3_128_hexdigest=cut_and_hash)
try:
    written.verify()
except CorruptRecord as error:
    print("named")
"""


def test_verifying_survives_a_file_that_is_cut_under_it(tmp_path: Path) -> None:
    # In a process of its own: reading such a file through a map would end it.
    command = [sys.executable, "-c", CUT_MEANWHILE, str(tmp_path / "a.seg")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert (found.returncode, found.stdout) == (0, "named\n"), found.stderr


@pytest.mark.parametrize("mapped", [False, True])
def test_a_file_that_is_cut_before_it_is_read(tmp_path: Path, mapped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = write_segment(tmp_path / "a.seg", {0: np.arange(1000.0)})

    def told_before(status: os.stat_result) -> tuple[int, int, int]:
        os.truncate(segment.path, 500)
        return segment.identity

    monkeypatch.setattr("daskevo.store.segment.identity_of", told_before)
    with pytest.raises(CorruptRecord, match="the file is cut"):
        segment.read(mapped=mapped)


def test_many_small_tensors_and_long_names(tmp_path: Path) -> None:
    arrays = {number: np.float32(number) for number in range(20_000)}
    segment = write_segment(tmp_path / "a.seg", arrays, {"names": ["x" * 200] * 20_000})
    found = Segment.open(tmp_path / "a.seg").read()
    assert len(found) == 20_000
    assert found[19_999] == 19_999
    assert segment.tensor_bytes == 80_000
