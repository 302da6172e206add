"""A journal that is cut in the middle of a record: who looks is told, and what to do."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

import daskevo
from daskevo.store import cut_off
from daskevo.store.cut_off import read_whole, say_damage
from daskevo.store.root import Root
from tests.store.owners import served

GOLDEN = Path(__file__).parents[1] / "corpus" / "golden" / "v1" / "root"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    served(Root.create(tmp_path / "root", shards=2), 1, {"a": 1}, {"b": 2}).close()
    return tmp_path / "root" / "shards" / "001" / "journal.1"


def test_a_whole_one_says_nothing(journal: Path) -> None:
    content, words = read_whole(journal.parents[2], 1)
    assert content is not None
    assert (content.records, words) == (({"a": 1}, {"b": 2}), "")
    assert read_whole(journal.parents[2], 0) == (None, "")


def test_one_that_is_cut_in_a_record(journal: Path) -> None:
    os.truncate(journal, journal.stat().st_size - 1)
    content, words = read_whole(journal.parents[2], 1)
    assert content is not None
    assert content.records == ({"a": 1},)
    assert words == f"{journal} ends in the middle of a record, of which {content.torn_bytes} bytes are there"


def test_a_writer_in_the_middle_of_a_record_is_waited_for(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = journal.read_bytes()
    os.truncate(journal, len(whole) - 1)
    monkeypatch.setattr(cut_off.time, "sleep", lambda seconds: journal.write_bytes(whole))
    content, words = read_whole(journal.parents[2], 1)
    assert content is not None
    assert (content.records, words) == (({"a": 1}, {"b": 2}), "")


def test_it_is_said_in_a_few_sentences() -> None:
    words = say_damage("/root", dict.fromkeys(range(64), "cut."))
    assert words.startswith("/root looks damaged, and models may be missing in what is said of it: shard 0: cut; ")
    assert "and 61 more shards" in words
    assert "`daskevo verify` says what is lost" in words
    assert len(words) < 300


def test_a_look_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(GOLDEN, tmp_path / "root")
    first = tmp_path / "root" / "shards" / "000" / "journal.1"
    os.truncate(first, first.stat().st_size // 2)
    os.truncate(second := tmp_path / "root" / "shards" / "001" / "journal.1", 60)
    with caplog.at_level(logging.WARNING):
        repository = daskevo.open(tmp_path / "root")
        assert [model.model_id for model in repository.models()] == []
    assert sorted(repository.connection.damage) == [0, 1]
    said = [record.getMessage() for record in caplog.records if "daskevo verify" in record.getMessage()]
    assert len(said) == 1
    assert str(first) in said[0]
    assert str(second.parent) in said[0]
    assert "leaves out" not in caplog.text
