"""What daskevo has logged in a test."""

from __future__ import annotations

import pytest


def said_by_daskevo(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the messages of daskevo's own loggers.

    Dask logs too, from threads of clusters that other tests share: that an event loop was busy, for one.
    """
    return [record.getMessage() for record in caplog.records if record.name.startswith("daskevo")]
