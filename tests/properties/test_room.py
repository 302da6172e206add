"""Room for transfers: in any order of arrival nobody waits for ever, and nobody is passed by for ever.

The rule before this one, by which each message of a put looked for room itself, is kept here to show that the same
search finds what was wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from daskevo.provider.transfer_memory import ABANDONED_AFTER_S, FORGOTTEN_AFTER_S, TransferMemory

LIMIT = 100


class Rule(Protocol):
    """How the messages of writers get room."""

    def may_land(self, writer: int, message: int, nbytes: int, now: float) -> bool: ...
    def done(self, writer: int, now: float) -> None: ...


class WholePuts:
    """What providers do: a put asks once, for all of it, before any of its messages."""

    def __init__(self) -> None:
        self.room = TransferMemory(LIMIT)

    def may_land(self, writer: int, message: int, nbytes: int, now: float) -> bool:
        granted = self.room.ask(writer, nbytes, now)
        if granted:
            self.room.touch(writer, now)
        assert self.room.held_bytes <= LIMIT
        return granted

    def done(self, writer: int, now: float) -> None:
        self.room.give_back(writer, now)


class EachMessage:
    """What they did: a message that came before there was room waited for all of it, be it its own put's by then."""

    def __init__(self) -> None:
        self.held: dict[int, int] = {}
        self.waits: set[tuple[int, int]] = set()

    def may_land(self, writer: int, message: int, nbytes: int, now: float) -> bool:
        if writer in self.held and (writer, message) not in self.waits:
            return True
        if nbytes > LIMIT - sum(self.held.values()):
            self.waits.add((writer, message))
            return False
        self.waits.discard((writer, message))
        self.held[writer] = nbytes
        return True

    def done(self, writer: int, now: float) -> None:
        del self.held[writer]


@dataclass
class Writer:
    """Of two messages at once; it may die at some moment, or stand still for ever."""

    number: int
    nbytes: int
    dies_at: float
    to_land: set[int]


def carry_out(rule: Rule, writers: list[Writer], order: Callable[[list[Any]], Any]) -> None:
    """Let the writers' messages come, in any order at first and in turns afterwards, until all are done."""
    living = {writer.number: writer for writer in writers}
    now = 0.0
    for step in range(140):
        now += 1.0 if step < 40 else ABANDONED_AFTER_S / 2
        for number in [number for number, writer in living.items() if writer.dies_at <= now]:
            del living[number]
        if not living:
            return
        choices = [(writer, message) for writer in living.values() for message in sorted(writer.to_land)]
        for writer, message in [order(choices)] if step < 40 else choices:
            if rule.may_land(writer.number, message, writer.nbytes, now):
                writer.to_land.discard(message)
                if not writer.to_land:
                    rule.done(writer.number, now)
                    living.pop(writer.number, None)
    raise AssertionError(f"{sorted(living)} wait for ever")


def many(least: int) -> Any:
    writer = st.tuples(st.integers(1, LIMIT), st.none() | st.integers(1, 60), st.integers(1, 4))
    return st.lists(writer, min_size=least, max_size=5)


def made(drawn: list[tuple[int, int | None, int]], *, die: bool) -> list[Writer]:
    return [
        Writer(number, nbytes, float("inf") if dies is None or not die else dies, set(range(messages)))
        for number, (nbytes, dies, messages) in enumerate(drawn)
    ]


@settings(max_examples=100)
@given(many(1), st.randoms())
def test_everybody_who_lives_gets_room(drawn: Any, chance: Any) -> None:
    carry_out(WholePuts(), made(drawn, die=True), chance.choice)


@settings(max_examples=100)
@given(st.lists(st.integers(1, LIMIT), min_size=2, max_size=8), st.data())
def test_who_asked_first_has_room_first(sizes: list[int], data: Any) -> None:
    room = TransferMemory(LIMIT)
    asked = data.draw(st.permutations(range(len(sizes))))
    for now, writer in enumerate(asked):
        room.ask(writer, sizes[writer], float(now))
    got: list[int] = []
    while len(got) < len(sizes):
        new = [writer for writer in asked if writer not in got and room.bytes_of(writer)]
        assert new, "nobody has room, and somebody waits"
        got += new
        assert got == asked[: len(got)]
        room.give_back(data.draw(st.sampled_from(new)), 100.0)
        for writer in new:
            room.give_back(writer, 100.0)
    assert room.held_bytes == 0


def test_the_rule_before_is_found_to_lock_itself_up() -> None:
    @settings(max_examples=100, database=None, phases=[Phase.generate])
    @given(many(2), st.randoms())
    def search(drawn: Any, chance: Any) -> None:
        carry_out(EachMessage(), made(drawn, die=False), chance.choice)

    with pytest.raises(AssertionError, match="wait for ever"):
        search()


def test_who_goes_without_a_word_keeps_nobody_waiting_for_ever() -> None:
    room = TransferMemory(LIMIT)
    assert room.ask("dead", 60, 0.0)
    assert not room.ask("gone", 90, 1.0)
    assert not room.ask("next", 50, 2.0)
    assert room.waits_in_vain_s("next", 12.0) == 10.0
    room.touch("dead", 10.0)
    assert room.waits_in_vain_s("next", 12.0) == 2.0
    assert not room.ask("next", 50, 2.0 + ABANDONED_AFTER_S)  # "gone" is no longer in its way, "dead" still is
    assert not room.ask("last", 40, 2.0 + ABANDONED_AFTER_S)  # which would fit, and comes after "next"
    assert room.ask("next", 50, 11.0 + FORGOTTEN_AFTER_S)
    assert room.bytes_of("dead") == 0


def test_one_that_is_larger_than_all_room_gets_it_alone_where_that_is_allowed() -> None:
    assert not TransferMemory(LIMIT).ask("large", LIMIT + 1, 0.0)
    room = TransferMemory(LIMIT, lends_alone=True)
    assert room.ask("small", 1, 0.0)
    assert not room.ask("large", LIMIT + 1, 0.0)
    room.give_back("small", 1.0)
    assert room.ask("large", LIMIT + 1, 1.0)
    assert not room.ask("small", 1, 1.0)
