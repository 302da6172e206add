"""What happens in a run beside its reports is said twice: in the log, and as an event of its record."""

from __future__ import annotations

import logging
from typing import Protocol

from daskevo.types import JSON

logger = logging.getLogger(__name__)


class Noted(Protocol):
    """What events are stored in: a run's record, or what passes them on to some."""

    def event(self, kind: str, message: str, number: int | None = None, **facts: JSON) -> None:
        """Store something that happened."""


def note(record: Noted, kind: str, message: str, number: int | None = None, **facts: JSON) -> None:
    """Log an event at level INFO, and store it.

    Parameters
    ----------
    kind:
        Its kind in the record.
    number:
        Of the request that it is about.
    facts:
        What else is known.
    """
    logger.info("%s: %s", kind, message)
    record.event(kind, message, number, **facts)
