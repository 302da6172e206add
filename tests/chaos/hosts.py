"""Several hosts on one machine: network namespaces on a bridge, which can be cut off and healed."""

from __future__ import annotations

import itertools
import subprocess
from collections import Counter
from collections.abc import Sequence
from types import TracebackType

from tests.chaos.schedule import Way

HUB = "10.77.0.1"
"""Address of this process' namespace on the bridge."""
BRIDGE = "evo"
NOBODY = "02:00:00:00:00:fe"
"""A hardware address that nobody has: what is sent there is lost without a word, as on a broken line."""

Place = str | None
"""A host's name; None: where this process is."""
Line = tuple[Place, Place]
"""From where to where."""


class Hosts:
    """Hosts with an address each, on a bridge in the namespace of the thread that makes them.

    Parameters
    ----------
    names:
        Of the hosts.

    Raises
    ------
    OSError, subprocess.CalledProcessError
        If the kernel or the user's rights don't allow it.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.addresses = {name: f"10.77.0.{number}" for number, name in enumerate(names, start=2)}
        self._places = {name: number for number, name in enumerate(names)}
        self._holders: dict[str, subprocess.Popen[str]] = {}
        self._lost: dict[tuple[str, ...], list[Line]] = {}
        self._times: Counter[Line] = Counter()
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", BRIDGE, "type", "bridge")
        _run("ip", "address", "add", f"{HUB}/24", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        try:
            for name in names:
                self._add(name)
        except BaseException:
            self.close()
            raise

    def _add(self, name: str) -> None:
        # The namespace lives as long as the process in it, and that as long as its input, which is ours.
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo up; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._holders[name] = holder
        if holder.stdout is None or holder.stdout.readline() != "up\n":
            raise OSError(f"no network namespace could be made for {name}")
        cable = self._cable(name)
        _run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        _run("ip", "link", "set", cable, "master", BRIDGE, "up")
        for words in (
            ["ip", "link", "set", "lo", "up"],
            ["ip", "address", "add", f"{self.addresses[name]}/24", "dev", "eth0"],
            ["ip", "link", "set", "eth0", "up"],
        ):
            _run(*self.command(name, words))

    def _cable(self, name: str) -> str:
        return f"evo{self._places[name]}"

    def command(self, name: str, words: Sequence[str]) -> list[str]:
        """Return a command that runs on a host."""
        return ["nsenter", f"--net=/proc/{self._holders[name].pid}/ns/net", *words]

    def cut(self, name: str, way: Way = "both ways") -> None:
        """Cut a host off: what is sent is lost without a word, until `heal`."""
        others: list[Place] = [None, *(other for other in self.addresses if other != name)]
        hears: list[Line] = [(other, name) for other in others]
        is_heard: list[Line] = [(name, other) for other in others]
        self._lose((name,), {"both ways": hears + is_heard, "hears nothing": hears, "is not heard": is_heard}[way])

    def split(self, *names: str) -> None:
        """Cut hosts off from all others, not from each other, until they are healed together."""
        others: list[Place] = [None, *(other for other in self.addresses if other not in names)]
        lines: list[Line] = list(itertools.product(names, others))
        self._lose(names, lines + [(other, name) for name, other in lines])

    def _lose(self, names: tuple[str, ...], lines: list[Line]) -> None:
        self.heal(*names)
        self._lost[names] = lines
        for line in lines:
            self._times[line] += 1
            if self._times[line] == 1:
                self._neighbour(line, "replace", "lladdr", NOBODY, "nud", "permanent")

    def heal(self, *names: str) -> None:
        """Let hosts hear and be heard again."""
        for line in self._lost.pop(names, ()):
            self._times[line] -= 1
            if not self._times[line]:
                self._neighbour(line, "del")

    def _neighbour(self, line: Line, verb: str, *words: str) -> None:
        """Say where a place finds another."""
        place, other = line
        address, device = HUB if other is None else self.addresses[other], BRIDGE if place is None else "eth0"
        command = ["ip", "neighbour", verb, address, "dev", device, *words]
        _run(*(command if place is None else self.command(place, command)))

    def close(self) -> None:
        """Take hosts and bridge away; processes on the hosts must have ended."""
        for holder in self._holders.values():
            holder.communicate()
        self._holders.clear()
        _run("ip", "link", "delete", BRIDGE)

    def __enter__(self) -> Hosts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _run(*words: str) -> None:
    """Run a command; its complaint goes into the error."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")
