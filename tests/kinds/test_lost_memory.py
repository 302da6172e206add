"""Kind 01: a provider is killed that held models in memory: what is lost is named, all else goes on.

The models are two families: the head of one is lost with the provider, the head of the other is not.
"""

from __future__ import annotations

import itertools
import os
import signal
from typing import Any

import pytest
from distributed import Client

import daskevo
from daskevo.errors import ModelLost
from daskevo.types import ModelId
from tests.cluster.helpers import chain
from tests.cluster.test_processes import pid_of, put_plain
from tests.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.long]

TRAIN = {"resources": {"evaluation": 1}, "pure": False}
LOST, KEPT = "provider-0", "provider-1"
NARROW, WIDE = (8, 6), (9, 7)
"""First layers of the two families."""


def name_at(repository: Any, provider: str, word: str) -> str:
    """Return a name whose home is on that provider."""
    connection = repository.connection
    table = connection.run(connection.session.directory.refresh)
    names = (f"{word}-{number}" for number in itertools.count())
    return next(name for name in names if table.place(ModelId(name)).name == provider)


def test_what_went_with_a_providers_memory_is_named_and_all_else_goes_on(client: Client) -> None:
    repository = daskevo.open(None, "lost", client=client, objective="max score", shards=8)

    def put(units: tuple[int, ...], last: int, name: str) -> str:
        return client.submit(put_plain, repository, chain(*units, last), name, **TRAIN).result(timeout=180)

    def owners_of(name: str) -> list[str]:
        return [entry.owner for entry in repository.record(name).owner_map.entries]

    narrow = put(NARROW, 3, name_at(repository, LOST, "narrow"))
    wide = put(WIDE, 3, name_at(repository, KEPT, "wide"))
    children = {
        (units, place): put(units, 4 + number, name_at(repository, place, f"child{number}"))
        for number, (units, place) in enumerate(itertools.product((NARROW, WIDE), (LOST, KEPT)))
    }
    for (units, _), child in children.items():
        # Frozen layers of the head, which lie with it, and a last layer of its own.
        assert owners_of(child) == [narrow if units == NARROW else wide] * 4 + [child] * 2
    before = {name: repository.read(name) for name in (wide, children[WIDE, KEPT])}

    pid = pid_of(client, LOST)
    client.submit(os.kill, pid, signal.SIGKILL, workers=["trainer-0"], **TRAIN).result(timeout=180)

    # (a) Whoever asks waits, at most, until the shard is open elsewhere.
    for gone in (narrow, children[NARROW, LOST], children[WIDE, LOST]):
        assert repository.retire(gone) == ()
        for ask in (repository.record, repository.read):
            with pytest.raises(ModelLost, match=LOST) as caught:
                ask(gone)
            assert (caught.value.model_id, caught.value.provider) == (gone, LOST)
    headless = children[NARROW, KEPT]
    assert repository.record(headless).model_id == headless
    with pytest.raises(ModelLost, match=LOST) as caught:
        repository.read(headless)
    facts = caught.value
    assert (facts.model_id, facts.owner, facts.provider, facts.tensors) == (headless, narrow, LOST, [0, 1, 2, 3])
    for name, tensors in before.items():
        found = repository.read(name)
        assert found.keys() == tensors.keys()
        assert all(found[key].tobytes() == tensors[key].tobytes() for key in tensors)

    # (b) Nothing that is lost is offered (all models share their input), and the answer says that something is missing.
    asked = [chain(*NARROW, 9), chain(*WIDE, 9)]
    wait_until(lambda: repository.best_match(asked)[0].model_id in before)
    answer = repository.best_match(asked)
    assert [(match.model_id in before, match.score) for match in answer] == [(True, 1), (True, 3)]
    assert len(answer.partial) == 4
    assert all(LOST in why for why in answer.partial.values())
    assert list(repository.query_futures(asked).result(timeout=180)) == list(answer)

    # (c) New children, in shards that began anew: they inherit from what is there, not from what is gone.
    assert owners_of(put(NARROW, 20, "new0")) == ["new0"] * 6
    assert owners_of(put(NARROW, 21, "new1")) == ["new0"] * 4 + ["new1"] * 2
    assert owners_of(put(WIDE, 20, "new2")) == [wide] * 4 + ["new2"] * 2

    # (d) Whatever has a record can be retired, lost tensors or not.
    for name in (headless, wide, children[WIDE, KEPT], "new0", "new1", "new2"):
        repository.retire(name)
    # Nobody gives a verdict about the models of a lost shard: what such a child had of its living ancestor may stay.
    stats = repository.stats()
    assert stats["models"] == 0
    assert stats["references"] <= 1
    assert stats["payload_bytes"] == stats["retained_bytes"]
    left = {(difference.kind, difference.model) for difference in repository.verify().differences}
    assert left <= {("leftover reference", children[WIDE, LOST])}
    # A repair does: then nothing is left.
    assert repository.verify(repair=True).clean
    stats = repository.stats()
    assert (stats["tensors"], stats["references"], stats["payload_bytes"]) == (0, 0, 0)
