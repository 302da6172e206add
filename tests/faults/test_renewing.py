"""Journals renewed and files rewritten by owners that were succeeded: nothing is lost; with a rule left out, it is."""

from __future__ import annotations

import pytest

from daskevo.errors import DaskevoError
from tests.protocol.checker import World, actors
from tests.protocol.checker.explore import A, C, _put, _stored
from tests.protocol.checker.servers import ServerRules
from tests.protocol.checker.under_way import Action

BROKEN = (AssertionError, DaskevoError, KeyError)


def _renewed_late(rules: ServerRules) -> None:
    """An owner looks at the epoch, is succeeded, and goes on: to a journal that starts from the state of its time."""
    world = World(2, rules)
    _stored(world, (A, None))
    shard = world.home(A)
    world.open(shard)
    old = world.old[shard]
    assert old is not None
    _stored(world, (C, A))
    world.act(Action("renew", "the old owner goes on", lambda: old.renew(stalled=True)))
    world.crash(shard)
    world.finish()


def test_a_file_that_comes_back_late_is_a_stray_one_that_the_audit_takes() -> None:
    world = World(2)
    _stored(world, (A, None), (C, A))
    world.spawn("release a", actors.release(A, "user:a"))
    world.settle_down()
    world.spawn("release c", actors.release(C, "user:a"))
    shard = world.home(A)
    server = world.servers[shard]
    assert server is not None
    bits = server.shard.state.references
    while any(claim[0] == C for _, claim, _ in bits):
        assert server.disk.files
        world.act(Action("rewrite", "begins", lambda: world.begin_rewriting(server)))
        world.act(world.actions()[0])
    world.crash(shard)
    world.settle_down()
    world.finish()


def test_an_old_owner_that_renews_late_changes_nothing() -> None:
    _renewed_late(ServerRules())


def test_under_any_number_above_it_would_bring_back_the_past() -> None:
    with pytest.raises(BROKEN):
        _renewed_late(ServerRules(renew_under_next_number=False))


def test_rewriting_and_renewing_beside_everything_loses_nothing() -> None:
    """Every shard renews and rewrites between any two steps; what is written anew lands as late as can be."""
    world = World(2)
    _stored(world, (A, None))
    world.train(_put(world, C, A))
    world.spawn("release a", actors.release(A, "user:a"))
    while actions := [action for action in world.actions() if action.kind != "rewrite"]:
        world.act(actions[0])
        for server in world.servers:
            if server is not None and server.serving:
                server.renew()
                world.begin_rewriting(server)
    assert world.rewriting
    world.finish()
