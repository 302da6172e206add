"""What happens in a run beside its reports is said twice: in the log, and as an event of its record."""

from __future__ import annotations

import logging

from daskevo.runs import RunRecord
from daskevo.types import JSON

logger = logging.getLogger(__name__)


def note(record: RunRecord, kind: str, message: str, number: int | None = None, **facts: JSON) -> None:
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
