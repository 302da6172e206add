"""Several hosts on one machine: network namespaces on a bridge, which can be cut off and healed."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator, Sequence
from types import TracebackType

from daskevo_workflows.chaos.schedule import Way

HUB = "10.77.0.1"
"""Address of this process' namespace on the bridge."""
BRIDGE = "evo"
NOBODY = "02:00:00:00:00:fe"
"""A hardware address that nobody has: what is sent there is lost without a word, as on a broken line."""


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
        self._cut: dict[str, Way] = {}
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
        self.heal(name)
        self._cut[name] = way
        if way == "both ways":
            _run("ip", "link", "set", self._cable(name), "down")
        for place, address in self._lost(name, way):
            device = BRIDGE if place is None else "eth0"
            words = ["ip", "neighbour", "replace", address, "lladdr", NOBODY, "dev", device, "nud", "permanent"]
            _run(*(words if place is None else self.command(place, words)))

    def heal(self, name: str) -> None:
        """Let a host hear and be heard again."""
        way = self._cut.pop(name, None)
        if way == "both ways":
            _run("ip", "link", "set", self._cable(name), "up")
        for place, address in self._lost(name, way):
            words = ["ip", "neighbour", "del", address, "dev", BRIDGE if place is None else "eth0"]
            _run(*(words if place is None else self.command(place, words)))

    def _lost(self, name: str, way: Way | None) -> Iterator[tuple[str | None, str]]:
        """Yield where (None: here) which address is taken for nobody's."""
        others = [other for other in self.addresses if other != name]
        if way == "hears nothing":
            yield from zip((None, *others), itertools.repeat(self.addresses[name]))
        elif way == "is not heard":
            yield from zip(itertools.repeat(name), (HUB, *(self.addresses[other] for other in others)))

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
