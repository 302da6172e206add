"""What grows with the models goes in messages of many: audits, lineages; a retirement knows its file's name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import UnknownModel
from daskevo.provider.maintenance import audit
from tests.cluster.helpers import at_rest, chain, evo_cluster, make, open_here, plugin_of
from tests.cluster.test_messages import Counted

GRAPH = chain(8, 6)


@evo_cluster(providers=2)
async def test_an_audit_asks_each_home_once_for_many(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None, shards=2)
    await make(repository, GRAPH, "base")
    for number in range(20):
        await make(repository, GRAPH, f"child{number}", score=0.1)
    await repository.connection.session.outbox.sent()
    await at_rest(s, a, b)
    for worker in (a, b):
        host = plugin_of(worker).host
        counted = Counted(type("Client", (), {"connection": host})())
        assert await audit(host) == 0
        assert counted.found.get("provider ask", 0) <= 2
        assert counted.found.get("coordinator over", 0) <= 1
    assert (await repository.verify()).clean


@evo_cluster(providers=2)
async def test_a_lineage_is_asked_for_in_few_messages(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    widths = [8] * 16
    for number in range(16):
        # Each keeps one layer more of the last one, and changes the rest.
        await make(repository, chain(*widths[:number], 3), f"m{number}", seed=number, score=0.1 + number / 100)
    wanted = [record.model_id for record in await repository.lineage("m15")]
    assert len(wanted) > 8
    assert wanted[0] == "m15"
    await repository.retire("m7")
    await at_rest(s, a, b)
    counted = Counted(repository)
    assert [record.model_id for record in await repository.lineage("m15")] == wanted
    assert (await counted.take())["provider lineage"] <= 5
    with pytest.raises(UnknownModel):
        await repository.lineage("unheard-of")


@evo_cluster()
async def test_a_retirement_lists_no_folder(c: Any, s: Any, a: Any, t: Any, tmp_path: Path, monkeypatch: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    await make(repository, GRAPH, "first")
    await at_rest(s, a)
    listed: list[Any] = []
    real = os.listdir

    def listdir(path: Any = ".") -> list[str]:
        listed.append(path)
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)
    await repository.retire("first")
    await at_rest(s, a)
    assert [path for path in listed if str(path).endswith("segments")] == []
    monkeypatch.undo()
    assert not list((tmp_path / "root").rglob("*.seg"))
