"""Contract suites and hypothesis strategies, for daskevo's tests and those of its extensions.

A contract is a function that takes an implementation, or what makes one, and raises AssertionError at the first promise
that is broken; `TierContract` is a class of tests. A problem is checked by `daskevo_workflows.problems.check_problem`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daskevo.testing.connections import check_connection
    from daskevo.testing.mapping import TierContract
    from daskevo.testing.names import HOSTILE_NAMES
    from daskevo.testing.shard_stores import check_shard_store
    from daskevo.testing.spaces import check_space
    from daskevo.testing.strategies import check_strategy
    from daskevo.testing.tensors import check_tensors
    from daskevo.testing.transports import check_transport

__all__ = [
    "HOSTILE_NAMES",
    "TierContract",
    "check_connection",
    "check_shard_store",
    "check_space",
    "check_strategy",
    "check_tensors",
    "check_transport",
]

_LAZY = {
    "HOSTILE_NAMES": "names",
    "TierContract": "mapping",
    "check_connection": "connections",
    "check_shard_store": "shard_stores",
    "check_space": "spaces",
    "check_strategy": "strategies",
    "check_tensors": "tensors",
    "check_transport": "transports",
}


def __getattr__(name: str) -> Any:
    # Each at first use: one needs pytest, others distributed.
    if name not in _LAZY:
        raise AttributeError(f"module 'daskevo.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"daskevo.testing.{_LAZY[name]}"), name)
    return value
