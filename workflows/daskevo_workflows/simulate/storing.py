"""What a simulated search stores its models in, whichever way that is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from daskevo.graph import ArchitectureGraph, Prefix
from daskevo.protocol.owner_map import OwnerEntry
from daskevo.runs import LabelChange
from daskevo.search import Request
from daskevo.types import Attempt, ModelId
from daskevo_workflows.simulate.clock import Server

Steps = Generator[float | None, None, Any]

SCOPE = "simulated"
DIGEST = "0" * 32


@dataclass
class Inherited:
    """What an evaluation got of its ancestor."""

    graph: ArchitectureGraph
    attempt: Attempt | None = None
    ancestor: ModelId | None = None
    prefix: Prefix = field(default_factory=lambda: Prefix(()))
    entries: Mapping[int, OwnerEntry] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredSizes:
    """What a repository holds: bytes, bytes of full copies of the living models, and how many live."""

    nbytes: int
    full_bytes: int
    models: int


class SimulatedRepository(Protocol):
    """What a simulated search stores its models in."""

    messages: Counter[str]

    def inherit(self, request: Request, graph: ArchitectureGraph, key: str, trainer: Server, transfers: bool) -> Steps:
        """Find, reserve and read; return an `Inherited`."""

    def put(
        self, request: Request, got: Inherited, kept: frozenset[int], quality: float, steps: int, label: str
    ) -> Steps:
        """Store a model of which the tensors in `kept` have not changed; return the bytes that it stores itself."""

    def change(self, change: LabelChange) -> Steps:
        """Carry a label change out, for the search's process that waits for it."""

    def stored(self) -> StoredSizes:
        """Return what is held now."""
