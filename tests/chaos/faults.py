"""What carries faults out, counts them, and undoes what lasts."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable

from tests.chaos.cluster import SCHEDULER, SEARCH
from tests.chaos.disk import Disk
from tests.chaos.hosts import Hosts
from tests.chaos.parts import Parts
from tests.chaos.schedule import Fault


class Faults:
    """The faults of a trial, carried out when their time has come.

    Parameters
    ----------
    faults:
        In order of time.
    parts, hosts, disk:
        What they hit; hosts or disk None: cut-offs or full disks are left out.
    storm:
        A second client's retirements; run in a thread.
    say:
        Takes one line about what happens.
    """

    def __init__(
        self,
        faults: Iterable[Fault],
        parts: Parts,
        hosts: Hosts | None,
        disk: Disk | None,
        storm: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self.counts: Counter[str] = Counter()
        """Faults carried out, by the first word of their kind."""
        self._waiting = [fault for fault in faults if self._is_possible(fault, hosts, disk)]
        self._lasting: list[tuple[float, Fault]] = []
        self._parts = parts
        self._hosts = hosts
        self._disk = disk
        self._storm = storm
        self._say = say
        self._storms: list[threading.Thread] = []

    @staticmethod
    def _is_possible(fault: Fault, hosts: Hosts | None, disk: Disk | None) -> bool:
        return not (fault.kind == "cut" and hosts is None) and not (fault.kind == "fill disk" and disk is None)

    def go_on(self, now_s: float) -> None:
        """Carry out what is due, so many seconds after the start, and undo what has lasted long enough."""
        for until_s, fault in [lasting for lasting in self._lasting if lasting[0] <= now_s]:
            self._lasting.remove((until_s, fault))
            self._undo(fault)
        while self._waiting and self._waiting[0].at_s <= now_s:
            fault = self._waiting.pop(0)
            self._say(fault.words())
            self._begin(fault)
            self.counts[fault.kind.split()[0]] += 1
            if fault.seconds:
                self._lasting.append((fault.at_s + fault.seconds, fault))

    def end(self) -> None:
        """Undo everything; begin nothing more; wait for storms, whose calls have time limits."""
        self._waiting.clear()
        for _, fault in self._lasting:
            self._undo(fault)
        self._lasting.clear()
        for thread in self._storms:
            thread.join()

    def _begin(self, fault: Fault) -> None:
        match fault.kind:
            case "kill worker":
                self._parts.kill_worker(fault.victim)
            case "kill host":
                self._parts.send(signal.SIGKILL, fault.victim)
            case "kill scheduler":
                self._parts.send(signal.SIGKILL, SCHEDULER)
            case "kill search":
                self._parts.send(signal.SIGKILL, SEARCH)
            case "kill all":
                self._parts.send(signal.SIGKILL)
            case "stop":
                self._parts.send(signal.SIGSTOP, fault.victim)
            case "cut" if self._hosts is not None and fault.way is not None:
                self._hosts.cut(fault.victim, fault.way)
            case "fill disk" if self._disk is not None:
                self._disk.fill()
            case "retire storm":
                self._storms.append(threading.Thread(target=self._storm, daemon=True))
                self._storms[-1].start()

    def _undo(self, fault: Fault) -> None:
        if fault.kind == "stop":
            self._parts.send(signal.SIGCONT, fault.victim)
        elif fault.kind == "cut" and self._hosts is not None:
            self._hosts.heal(fault.victim)
        elif self._disk is not None:
            self._disk.empty()
