"""The hosts themselves: who is cut off hears, or is heard, or neither, and nobody else notices."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.hosts import HUB, Hosts

ECHO = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.bind((sys.argv[1], 7))
    print("up", flush=True)
    while True:
        said, who = s.recvfrom(100)
        print(said.decode(), flush=True)
        s.sendto(said, who)
"""


@pytest.fixture
def echoes(network: Callable[..., Hosts]) -> Any:
    """Three hosts that say what they hear, and send it back."""
    hosts = network("a", "b", "c")
    running = {
        name: subprocess.Popen(
            hosts.command(name, [sys.executable, "-c", ECHO, address]), stdout=subprocess.PIPE, text=True
        )
        for name, address in hosts.addresses.items()
    }
    for process in running.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
    yield hosts, running
    for process in running.values():
        process.kill()
        process.wait()
        process.stdout.close()


def test_cut_off_each_way_and_healed(echoes: Any) -> None:
    hosts, running = echoes

    def ask(name: str, word: str, seconds: float = 60.0) -> bool:
        """Ask a host from here; tell whether an answer came."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.bind((HUB, 0))
            asking.settimeout(seconds)
            asking.sendto(word.encode(), (hosts.addresses[name], 7))
            try:
                return asking.recv(100).decode() == word
            except TimeoutError:
                return False

    assert all(ask(name, "first") for name in "abc")
    hosts.cut("a", "hears nothing")
    hosts.cut("b", "is not heard")
    assert not ask("a", "second", 0.3)
    assert not ask("b", "third", 0.3)
    assert ask("c", "fourth")
    hosts.cut("c")
    hosts.heal("a")
    assert ask("a", "fifth")
    assert not ask("c", "sixth", 0.3)
    hosts.heal("b")
    assert ask("b", "seventh")
    hosts.heal("c")
    hosts.split("a", "b")
    assert not ask("a", "eighth", 0.3)
    assert ask("c", "ninth")
    hosts.heal("a", "b")
    assert all(ask(name, "last") for name in "abc")
    heard = {}
    for name, process in running.items():
        process.kill()
        heard[name] = process.communicate()[0].split()
    assert heard == {
        "a": ["first", "fifth", "last"],
        "b": ["first", "third", "seventh", "last"],
        "c": ["first", "fourth", "ninth", "last"],
    }


def test_hosts_that_are_split_off_hear_each_other(echoes: Any) -> None:
    hosts, _ = echoes
    script = (
        "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)\n"
        "s.sendto(b'x', (sys.argv[1], 7)); print(s.recv(9))"
    )
    hosts.split("a", "b")
    words = [sys.executable, "-c", script, hosts.addresses["b"]]
    done = subprocess.run(hosts.command("a", words), capture_output=True, text=True, check=False)
    assert done.stdout == "b'x'\n", done.stderr
