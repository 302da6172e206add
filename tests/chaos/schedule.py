"""What happens when: the faults of a trial, drawn from a seed before anything is started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

Kind = Literal[
    "kill worker", "kill host", "kill scheduler", "kill search", "kill all", "stop", "cut", "fill disk", "retire storm"
]
Way = Literal["both ways", "hears nothing", "is not heard"]

EVERY_S = 5.0
"""Usual time between two faults, on average; each is drawn between 0.4 and 1.6 times of it."""
LAST_S = {"stop": (1.0, 25.0), "cut": (1.0, 25.0), "fill disk": (1.0, 6.0)}
"""Shortest and longest time that a fault lasts; the others are over at once."""
DECK: tuple[Kind, ...] = (
    *("kill worker", "kill worker", "kill host", "kill search", "kill scheduler", "kill all"),
    *("stop", "stop", "cut", "cut", "fill disk", "retire storm", "retire storm"),
)
"""Faults are dealt like cards, so that each kind has its turn in every minute or so."""
WAYS: tuple[Way, ...] = ("both ways", "hears nothing", "is not heard")


class Fault(NamedTuple):
    """One fault: when it begins, in seconds after the start, whom it hits, and how long it lasts (0: at once)."""

    at_s: float
    kind: Kind
    victim: str
    """Name of a worker; empty where no single one is meant."""
    seconds: float
    way: Way | None
    """How a host is cut off."""

    def words(self) -> str:
        """Say what happens."""
        lasting = f" for {self.seconds:.1f} s" if self.seconds else ""
        whom = f" {self.victim}" if self.victim else ""
        how = f", which {self.way}," if self.way in ("hears nothing", "is not heard") else ""
        return f"{self.kind}{whom}{how}{lasting}"


def schedule(seed: int, seconds: float, victims: Sequence[str], every_s: float = EVERY_S) -> list[Fault]:
    """Return the faults of a trial.

    Parameters
    ----------
    seed:
        The same seed gives the same faults at the same times; what the cluster is doing at those times differs.
    seconds:
        When faults end.
    victims:
        Names of the workers that may be hit.
    every_s:
        Mean time between two faults.

    Examples
    --------
    >>> faults = schedule(3, 60, ["provider-0", "trainer-0"])
    >>> faults == schedule(3, 60, ["provider-0", "trainer-0"]), faults == schedule(4, 60, ["provider-0", "trainer-0"])
    (True, False)
    """
    rng = np.random.default_rng(seed)
    return list(_faults(rng, seconds, victims, every_s))


def _faults(rng: np.random.Generator, seconds: float, victims: Sequence[str], every_s: float) -> Iterator[Fault]:
    at_s = 0.0
    while True:
        for place in rng.permutation(len(DECK)):
            kind = DECK[place]
            at_s += rng.uniform(0.4 * every_s, 1.6 * every_s)
            victim = str(rng.choice(victims)) if kind in ("kill worker", "kill host", "stop", "cut") else ""
            lasting = float(rng.uniform(*LAST_S[kind])) if kind in LAST_S else 0.0
            way = WAYS[rng.integers(len(WAYS))] if kind == "cut" else None
            if at_s >= seconds:
                return
            # What begins late ends with the faults, so that the rest is peace.
            yield Fault(at_s, kind, victim, min(lasting, seconds - at_s), way)
