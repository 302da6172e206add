"""Note what happens in a run besides its reports, both in the log and as an event of its record."""

from __future__ import annotations

import logging
from typing import Protocol

from daskevo.types import JSON

logger = logging.getLogger(__name__)


class Noted(Protocol):
    """Stores events: a run's record, or an object that passes them on to one."""

    def event(self, kind: str, message: str, number: int | None = None, **facts: JSON) -> None:
        """Store an event."""


def note(record: Noted, kind: str, message: str, number: int | None = None, **facts: JSON) -> None:
    """Log an event at level INFO, and store it.

    Parameters
    ----------
    kind:
        Its kind in the record.
    number:
        Number of the request that it concerns.
    facts:
        Further facts.
    """
    logger.info("%s: %s", kind, message)
    record.event(kind, message, number, **facts)
