"""The ports of a Slurm of one's own: Slurms of tests that run side by side never meet."""

from __future__ import annotations

import socket

from tests.slurm.running import free_ports


def test_processes_with_numbers_side_by_side_have_ports_of_their_own() -> None:
    firsts = [free_ports(4, number) for number in range(70_000, 70_016)]
    ports = [port for first in firsts for port in range(first, first + 4)]
    assert len(set(ports)) == len(ports) == 64


def test_ports_in_use_are_passed_over() -> None:
    first = free_ports(4, 7)
    with socket.create_server(("127.0.0.1", first + 3)):
        assert free_ports(4, 7) != first
