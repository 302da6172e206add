"""A retirement storm: a second client takes models away from a running search, many at once."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from daskevo.errors import DaskevoError
from tests.chaos import ledger

AT_ONCE = 4
GONE = (DaskevoError, OSError, TimeoutError, RuntimeError)
"""What a client may meet in the middle of chaos."""


def storm(address: str, root: Path, scope: str, book: Path) -> None:
    """Retire every other model of the scope; orders and answers go into the ledger."""
    from distributed import Client

    import daskevo

    with contextlib.suppress(*GONE), Client(address, timeout="10s", set_as_default=False) as client:
        repository = daskevo.open(root, scope, client=client, timeout_s=10)
        chosen = [model.model_id for model in repository.models(scope)[::2]]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for name in chosen:
                threads.submit(_retire, repository, name, book)


def _retire(repository: Any, model_id: str, book: Path) -> None:
    ledger.note(book, what="retire asked", model=model_id)
    with contextlib.suppress(*GONE):
        repository.retire(model_id)
        ledger.note(book, what="retired", model=model_id)
