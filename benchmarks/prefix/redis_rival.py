"""Redis as the paper describes it: architectures as JSON values that the client iterates over, reader-writer locks.

Source: paper 000, section 5.2. The client holds the readers' lock, fetches every architecture, compares it by Algorithm
1, counts a reference to the best, and gives the lock back. A real redis-server of this machine, on a Unix socket.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.prefix.algorithm1 import Graph, graph_of, longest_common_prefix
from benchmarks.prefix.space import Model

FETCHED = 1000
"""Values that one MGET brings."""
_PATIENCE_S = 60.0

_LOCK = """
if redis.call('EXISTS', 'writer') == 1 then return 0 end
redis.call('INCR', 'readers')
return 1
"""


def missing() -> str | None:
    """Return what is not installed, or None."""
    if shutil.which("redis-server") is None:
        return "redis-server"
    return "the package redis" if find_spec("redis") is None else None


@contextmanager
def server() -> Iterator[Any]:
    """Run a redis-server that keeps nothing on disk; gives a client of it."""
    import redis

    with tempfile.TemporaryDirectory(prefix="daskevo-redis-") as folder:
        socket = Path(folder) / "socket"
        command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with redis.Redis(unix_socket_path=str(socket)) as client:
                _wait(client, redis.ConnectionError)
                yield client
        finally:
            process.terminate()
            process.wait()


def _wait(client: Any, refused: type[Exception]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            client.ping()
        except refused:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def fill(client: Any, models: Sequence[Model]) -> None:
    """Publish models."""
    for start in range(0, len(models), FETCHED):
        some = {
            f"model:{number}": json.dumps(graph_of(model.leaves)._asdict())
            for number, model in enumerate(models[start : start + FETCHED], start)
        }
        client.mset(some)
        client.sadd("published", *some)


def ask(client: Any, graph: Graph) -> int:
    """Return the largest prefix of a graph with any published model."""
    lock = client.register_script(_LOCK)
    while not lock():
        time.sleep(0.001)
    try:
        best, most = b"", 0
        names = sorted(client.smembers("published"))
        for start in range(0, len(names), FETCHED):
            some = names[start : start + FETCHED]
            for name, value in zip(some, client.mget(some), strict=True):
                size = longest_common_prefix(graph, Graph(**json.loads(value)))
                if size > most:
                    best, most = name, size
        client.hincrby("references", best, 1)
    finally:
        client.decr("readers")
    return most
