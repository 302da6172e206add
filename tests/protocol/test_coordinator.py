"""The coordinator: ticks, attempts, settling and the shard table."""

from __future__ import annotations

import pytest

from daskevo.protocol.attempts import Settle
from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.holders import ClientHolder, TaskHolder
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.protocol.shard_table import MoveShard, OpenShards, Place, ShardTable
from daskevo.types import ModelId, Tick

M = ModelId("m")
FIRST = TaskHolder("train-1", 1, "tcp://10.0.0.1:1")
SECOND = TaskHolder("train-1", 2, "tcp://10.0.0.2:1")
CLIENT = ClientHolder("Client-1")


def coordinator(generation: int = 3, shards: int = 4, *, durable: bool = True) -> Coordinator:
    return Coordinator(generation, shards, durable=durable)


def begin(c: Coordinator, holder: TaskHolder | ClientHolder, model: ModelId | None = M) -> Tick:
    attempt = c.begin(holder, model, live=True)
    assert attempt is not None
    return attempt


def test_ticks_are_ordered_and_never_reused_across_generations() -> None:
    c = coordinator()
    ticks = [c.tick(), begin(c, FIRST), c.tick(), coordinator(generation=4).tick()]
    assert ticks == sorted(set(ticks))


def test_only_live_holders_begin() -> None:
    c = coordinator()
    assert c.begin(FIRST, M, live=False) is None
    begin(c, FIRST)


def test_ended_is_final_whatever_the_scheduler_says() -> None:
    c = coordinator()
    c.holder_ended(FIRST)
    assert c.begin(FIRST, M, live=True) is None
    begin(c, SECOND)


def test_an_attempt_is_over_when_it_ends_or_its_holder_or_its_generation() -> None:
    c = coordinator()
    ended, held, live = begin(c, FIRST), begin(c, SECOND), begin(c, CLIENT)
    c.end(ended)
    c.holder_ended(SECOND)
    assert c.over([ended, held, live, Tick(2, 999)]) == [True, True, False, True]


def test_ticks_that_were_never_given_are_not_called_over() -> None:
    c = coordinator()
    assert c.over([Tick(3, 1), Tick(4, 1)]) == [False, False]
    assert coordinator(generation=4).over([Tick(3, 1)]) == [True]


def test_end_repeated_or_late_does_nothing() -> None:
    c = coordinator()
    attempt = begin(c, FIRST)
    c.end(attempt)
    c.end(attempt, settled=False)
    assert c.holder_ended(FIRST) == []
    assert c.unsettled() == 0


def test_holders_are_found_by_key_and_client() -> None:
    c = coordinator()
    for holder in (FIRST, SECOND, CLIENT):
        begin(c, holder)
    assert c.holders_of_key("train-1") == [FIRST, SECOND]
    assert c.holders_of_client("Client-1") == [CLIENT]
    c.holder_ended(FIRST)
    assert c.holders_of_key("train-1") == [SECOND]
    assert c.holders_of_client("Client-2") == []


def test_what_ended_without_a_word_is_settled_until_home_has_answered() -> None:
    c = coordinator()
    attempt, reading = begin(c, FIRST), begin(c, FIRST, None)
    due = [Settle(M, attempt), Settle(None, reading)]
    assert c.holder_ended(FIRST) == due
    assert c.take_settling() == due
    assert c.take_settling() == []
    c.settled(due[1])
    c.postpone(due[0])
    assert c.take_settling() == []
    c.resume_settling()
    assert c.take_settling() == due[:1]
    c.settled(due[0])
    assert c.unsettled() == 0


def test_an_end_without_verdict_is_settled_too() -> None:
    c = coordinator()
    attempt = begin(c, FIRST)
    c.end(attempt, settled=False)
    assert c.over([attempt]) == [True]
    assert c.take_settling() == [Settle(M, attempt)]


def test_postponed_settling_is_due_when_its_home_opens() -> None:
    c = coordinator()
    attempt = begin(c, FIRST)
    (settle,) = c.holder_ended(FIRST)
    c.take_settling()
    c.postpone(settle)
    c.provider_joined("provider-0", "tcp://a")
    c.assign()
    home = shard_of(M, 4)
    assert c.opened((home + 1) % 4, "provider-0")
    assert c.take_settling() == []
    assert c.opened(home, "provider-0")
    assert c.take_settling() == [Settle(M, attempt)]


# The shard table


def serving(*names: str, durable: bool = True, shards: int = 4) -> Coordinator:
    c = coordinator(durable=durable, shards=shards)
    for name in names:
        c.provider_joined(name, f"tcp://{name}")
    for instruction in c.assign():
        for shard in instruction.shards:
            assert c.opened(shard, instruction.place.name)
    return c


def names(c: Coordinator) -> list[str | None]:
    return [place and place.name for place in c.table().places.values()]


def test_shards_are_spread_and_served_only_once_opened() -> None:
    c = coordinator()
    assert c.assign() == []
    c.provider_joined("p0", "tcp://p0")
    c.provider_joined("p1", "tcp://p1")
    instructions = c.assign()
    assert instructions == [
        OpenShards(Place("p0", "tcp://p0"), (0, 2), {}),
        OpenShards(Place("p1", "tcp://p1"), (1, 3), {}),
    ]
    assert c.assign() == []
    assert names(c) == [None] * 4
    before = c.table().version
    assert c.opened(0, "p0")
    assert names(c) == ["p0", None, None, None]
    assert c.table().version > before
    assert c.table().place(M) == c.table().places[shard_of(M, 4)]


def test_a_provider_that_left_is_replaced_and_its_late_word_is_ignored() -> None:
    c = serving("p0", "p1")
    c.provider_left("p0")
    assert names(c) == [None, "p1", None, "p1"]
    assert [i.shards for i in c.assign()] == [(0, 2)]
    assert not c.opened(0, "p0")
    assert c.opened(0, "p1")
    assert c.opened(0, "p1")
    assert c.table().lost == {}


def test_providers_that_leave_get_no_more_shards() -> None:
    c = serving("p0", "p1", "p2")
    c.provider_left("p0")
    assert {i.place.name for i in c.assign(leaving={"p1"})} == {"p2"}
    c.provider_left("p2")
    assert c.assign(leaving={"p1"}) == []
    assert {i.place.name for i in c.assign()} == {"p1"}


def test_a_provider_that_comes_back_elsewhere_has_nothing_open() -> None:
    c = serving("p0")
    c.provider_joined("p0", "tcp://new")
    assert names(c) == [None] * 4
    assert c.assign() == [OpenShards(Place("p0", "tcp://new"), (0, 1, 2, 3), {})]


def test_joining_again_at_the_same_address_changes_nothing() -> None:
    c = serving("p0")
    c.provider_joined("p0", "tcp://p0")
    assert names(c) == ["p0"] * 4


def test_a_fenced_or_failed_shard_is_nobodys() -> None:
    c = serving("p0", "p1")
    c.not_served(1, "p0")
    assert names(c)[1] == "p1"
    c.not_served(1, "p1")
    assert names(c)[1] is None
    (instruction,) = c.assign()
    c.not_served(1, instruction.place.name)
    assert c.assign() == [instruction]


def carry_out(c: Coordinator, move: MoveShard) -> tuple[int, str, str]:
    assert names(c)[move.shard] is None
    assert c.opened(move.shard, move.target.name)
    return move.shard, move.source.name, move.target.name


def test_shares_are_evened_out_one_shard_at_a_time() -> None:
    c = serving("p0")
    c.provider_joined("p1", "tcp://p1")
    first = c.even_out()
    assert first == MoveShard(0, Place("p0", "tcp://p0"), Place("p1", "tcp://p1"))
    assert c.even_out() is None  # it is under way
    assert carry_out(c, first) == (0, "p0", "p1")
    second = c.even_out()
    assert second is not None
    assert carry_out(c, second) == (1, "p0", "p1")
    assert c.even_out() is None


@pytest.mark.parametrize("shards", [5, 8, 31, 64])
def test_evening_out_ends_as_even_as_can_be_and_does_not_begin_for_little(shards: int) -> None:
    c = serving("p0", "p1", "p2", shards=shards)
    c.provider_left("p2")
    c.assign(avoid={"p1"})  # all that p2 had goes to one
    for shard in range(shards):
        c.opened(shard, "p0")
    c.provider_joined("p2", "tcp://new")
    while (move := c.even_out()) is not None:
        carry_out(c, move)
    loads = [names(c).count(name) for name in ("p0", "p1", "p2")]
    assert max(loads) - min(loads) <= 1
    # One shard that goes astray moves nothing back, where that is little of a share.
    shard = next(iter(c.serves("p0")))
    c.not_served(shard, "p0")
    c.assign(avoid={"p0", "p1"})
    c.opened(shard, "p2")
    loads = [names(c).count(name) for name in ("p0", "p1", "p2")]
    assert (c.even_out() is None) == (max(loads) - min(loads) <= max(1, shards / 12))


def test_neither_who_leaves_nor_who_is_silent_gets_shards() -> None:
    c = serving("p0")
    for name in ("p1", "p2"):
        c.provider_joined(name, f"tcp://{name}")
    assert c.even_out(leaving={"p1"}, avoid={"p2"}) is None
    move = c.even_out(avoid={"p2"})
    assert move is not None
    assert move.target.name == "p1"


def test_a_provider_that_leaves_hands_over_to_those_that_stay() -> None:
    c = serving("p0", "p1", "p2", shards=9)
    assert c.can_hand_over("p0", {"p0"})
    moves = c.hand_over({"p0"}, most=2)
    assert [carry_out(c, move) for move in moves] == [(0, "p0", "p1"), (3, "p0", "p2")]
    (last,) = c.hand_over({"p0"}, most=2)
    assert last.shard == 6
    assert c.hand_over({"p0"}, most=2) == []
    assert not c.can_hand_over("p0", {"p0"})
    assert not c.can_hand_over("p1", {"p0", "p1", "p2"})
    assert c.hand_over({"p1", "p2"}, avoid={"p0"}, most=9) == []


def test_a_shard_that_cannot_be_opened_where_it_goes_may_go_back() -> None:
    c = serving("p0", "p1")
    (move, _) = c.hand_over({"p0"}, most=2)
    c.not_served(move.shard, "p1")
    (instruction,) = c.assign(avoid={"p1"})
    assert (instruction.place.name, instruction.shards) == ("p0", (move.shard,))


def test_silent_providers_lose_their_shards_and_nothing_else() -> None:
    c = serving("p0", "p1")
    before = c.table().version
    assert not c.give_up({"p0", "p1"})
    assert not c.give_up({"p0"}, leaving={"p1"})
    assert c.table().version == before
    assert c.give_up({"p0"})
    assert not c.give_up({"p0"})
    assert names(c) == [None, "p1", None, "p1"]
    assert c.table().version > before
    assert c.providers().keys() == {"p0", "p1"}
    (instruction,) = c.assign(avoid={"p0"})
    assert (instruction.place.name, instruction.shards) == ("p1", (0, 2))
    assert not c.opened(0, "p0")
    assert not c.has("p0", 0)
    assert c.has("p1", 0)


def test_without_a_root_nothing_moves() -> None:
    c = serving("p0", durable=False)
    c.provider_joined("p1", "tcp://p1")
    assert c.even_out() is None
    assert c.hand_over({"p0"}) == []
    assert not c.can_hand_over("p0", {"p0"})
    assert not c.give_up({"p0"})


def test_without_a_root_shards_die_with_their_provider_and_begin_anew() -> None:
    c = serving("p0", "p1", durable=False)
    before = c.tick()
    c.provider_left("p0")
    after = c.tick()
    lost = c.table().lost
    assert lost.keys() == {0, 2}
    assert all(before < floor < after for floor in lost.values())
    (instruction,) = c.assign()
    assert instruction.floors == lost


def test_models_that_inherit_from_a_lost_shard_are_known() -> None:
    c = serving("p0", "p1", durable=False)
    in_lost, elsewhere = (next(ModelId(n) for n in "abcdefgh" if shard_of(ModelId(n), 4) == s) for s in (0, 1))
    before = c.tick()
    owner_map = OwnerMap(tuple(OwnerEntry(owner, 0, "0" * 32, 0) for owner in (in_lost, elsewhere)))
    assert c.table().lost_owners(owner_map, before) == frozenset()
    c.provider_left("p0")
    assert c.table().lost_owners(owner_map, before) == {in_lost}
    assert c.table().lost_owners(owner_map, c.tick()) == frozenset()


def test_the_table_survives_the_wire() -> None:
    table = serving("p0", durable=False).table()
    assert ShardTable.from_wire(table.to_wire()) == table
    assert table.shards == 4
