"""A local cluster for the searches of these tests, and problems that take a tenth of a second."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_numbers = itertools.count()


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A client of a cluster with one provider and two trainers.

    This folder comes last, in each process that tests: in-process clusters of Dask's own tests, elsewhere, end all
    processes that they find.
    """
    import daskevo

    with daskevo.local_cluster(trainers=2, dashboard_address=None) as cluster, cluster.get_client() as found:
        yield found


@pytest.fixture(autouse=True)
def whole_cluster(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have all workers of the client's cluster there before a test, as the one before may have ended some, and see that
    the test's runs leave nothing on them."""
    if "client" not in request.fixturenames:
        yield
        return
    from tests.workflows.waiting import wait_for_nothing_left, wait_for_workers

    client = request.getfixturevalue("client")
    wait_for_workers(client, {"provider-0", "trainer-0", "trainer-1"})
    yield
    wait_for_nothing_left(client)


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Path]:
    """Writes the tiny problem's file with other constants."""

    def write(**constants: Any) -> Path:
        text = (Path(__file__).parent / "tiny.py").read_text()
        path = tmp_path / f"tiny{next(_numbers)}.py"
        set_here = "".join(f"{name} = {value!r}\n" for name, value in constants.items())
        path.write_text(text.replace("\n\ndef space()", f"\n\n{set_here}\n\ndef space()", 1))
        return path

    return write


@pytest.fixture
def tuned(tmp_path: Path) -> Callable[..., Path]:
    """Writes the problem's file with other constants."""

    def write(file: str = "tuned.py", **constants: Any) -> Path:
        text = (Path(__file__).parent / file).read_text()
        path = tmp_path / file
        set_here = "".join(f"{name} = {value!r}\n" for name, value in constants.items())
        path.write_text(text.replace("\n\ndef space()", f"\n\n{set_here}\n\ndef space()", 1))
        return path

    return write


@pytest.fixture
def repository(client: Any, tmp_path: Path) -> Any:
    """A repository of its own for each test."""
    import daskevo

    return daskevo.open(tmp_path / "repository", "tiny", client=client, objective="max val_accuracy", shards=8)


@pytest.fixture
def alarm_clock() -> Iterator[None]:
    """The process' alarm clock, which pytest-timeout has otherwise."""
    before, timer = signal.signal(signal.SIGALRM, signal.SIG_DFL), signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.signal(signal.SIGALRM, before)
    signal.setitimer(signal.ITIMER_REAL, *timer)
