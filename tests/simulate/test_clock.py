"""Simulated time: the order of things, one at a time on a server, cores that are shared."""

from __future__ import annotations

from daskevo_workflows.simulate.clock import Clock, Host, Process, Server


def test_processes_go_on_in_the_order_of_their_moments() -> None:
    clock, seen = Clock(), []

    def waits(name: str, *moments: float) -> Process:
        for moment in moments:
            yield moment
            seen.append((clock.now, name))

    clock.start(waits("a", 1.0, 3.0))
    last = waits("b", 2.0, 3.0, 4.0)
    clock.start(last)
    clock.go(last)
    assert seen == [(1.0, "a"), (2.0, "b"), (3.0, "a"), (3.0, "b"), (4.0, "b")]


def test_it_ends_with_the_process_that_is_waited_for() -> None:
    clock = Clock()

    def waits(moment: float) -> Process:
        yield moment

    first = waits(1.0)
    clock.start(first)
    clock.start(waits(5.0))
    clock.go(first)
    assert clock.now == 1.0


def test_a_server_does_one_thing_after_another() -> None:
    server = Server()
    assert [server.take(0.0, 1.0), server.take(0.5, 1.0), server.take(5.0, 1.0)] == [1.0, 2.0, 6.0]
    assert (server.busy_s, server.longest_wait_s, server.takes) == (3.0, 0.5, 3)


def test_what_is_not_simulated_one_by_one_slows_a_server_down() -> None:
    assert Server(load=0.5).take(0.0, 1.0) == 2.0


def test_servers_of_a_host_share_its_cores() -> None:
    host = Host(2)
    assert [Server(host).take(0.0, 1.0) for _ in range(5)] == [1.0, 1.0, 2.0, 2.0, 3.0]
