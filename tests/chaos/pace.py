"""How long evaluations rest, so that a search takes as long as the faults do, whatever the machine."""

from __future__ import annotations

from pathlib import Path

LONGEST_S = 8.0
SHORTEST_S = 0.05
FASTER, SLOWER = 0.7, 1.3


class Pace:
    """Lets evaluations rest longer while more of them finish than are due, and shorter while fewer do.

    Under faults few get to their end; those that rest longest the least.

    Parameters
    ----------
    file:
        Where trainers read how long to rest, in seconds.
    evaluations:
        The search's budget.
    """

    def __init__(self, file: Path, evaluations: int) -> None:
        self.rest_s = 1.0
        self._file = file
        self._evaluations = evaluations
        self._looked: tuple[float, int] | None = None

    def look(self, done: int, now_s: float, left_s: float) -> None:
        """Take in how many evaluations have finished by `now_s`, with `left_s` seconds to go; at most every second."""
        before, self._looked = self._looked, (now_s, done)
        if before is not None and left_s > 0 and now_s > before[0]:
            due = (self._evaluations - done) / left_s
            found = (done - before[1]) / (now_s - before[0])
            self.rest_s = min(LONGEST_S, max(SHORTEST_S, self.rest_s * (SLOWER if found > due else FASTER)))
        self._file.write_text(f"{self.rest_s if left_s > 0 else 0.0:.3f}")
