"""The prefix index: which of many models shares the longest prefix with a given architecture graph.

Source: paper 000, section 4.2 (longest common prefix queries over the models of a provider). Ids of vertices contain
their ancestor cones (:mod:`daskevo.graph.identity`), so the prefix of a graph with a model is the set of ids that both
have, and its score is the weight of that set. How a query is answered without looking at every model is told in
:mod:`daskevo.index.compiled.search`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from daskevo.errors import InvalidInput
from daskevo.index.query import Entry, PackedModel, PrefixMatch, Query, pack_model, pack_query
from daskevo.index.read_write_lock import ReadWriteLock
from daskevo.types import ModelId, Tick, VertexId

if TYPE_CHECKING:
    from daskevo.index.compiled.scope import Scope


class PrefixIndex:
    """Exact best matches among the models of one provider, scope by scope.

    All methods may be called from any thread; each takes effect at once for the calls that start after it returned.
    Queries run side by side, without Python's global lock in the compiled core; a change waits for the queries under
    way and keeps out those that come after it, so every answer is right for one moment. Nothing of a query is kept
    between calls: what it needs while it runs belongs to the call.

    The core is compiled, or taken from the cache, by `warm`, or else by the first query, which then takes seconds.
    Until then models only wait in line, so an index that nobody asks needs no compiler.

    Examples
    --------
    >>> index = PrefixIndex()
    >>> x, a, b = (VertexId(bytes([n]) * 16) for n in range(3))
    >>> index.insert("digits", ModelId("short"), [x], 0.9, Tick(1, 1))
    >>> index.insert("digits", ModelId("long"), [x, a], 0.5, Tick(1, 2))
    >>> index.best("digits", [x, a, b])
    PrefixMatch(score=2, rank=0.5, created=Tick(generation=1, counter=2), model_id='long')
    """

    def __init__(self) -> None:
        self._lock = ReadWriteLock()
        self._warming = Lock()
        self._new_scope: type[Scope] | None = None
        self._waiting: dict[ModelId, PackedModel] = {}
        # Few, one for each problem, so that a model is looked for in one after the other. Copied where no lock is held.
        self._scopes: dict[str, Scope] = {}

    def __len__(self) -> int:
        return len(self._waiting) + sum(len(scope.blocks) for scope in list(self._scopes.values()))

    def __contains__(self, model_id: object) -> bool:
        return model_id in self._waiting or any(model_id in scope.blocks for scope in list(self._scopes.values()))

    @property
    def nbytes(self) -> int:
        """Bytes of the compiled core's arrays."""
        with self._lock.reading:
            return sum(scope.nbytes for scope in self._scopes.values())

    @property
    def is_warm(self) -> bool:
        """Whether queries are answered without compiling first."""
        return self._new_scope is not None

    def warm(self) -> None:
        """Load the compiled core and bring in the models that wait for it; compiles for seconds where it is not cached.

        Call it from a thread, early, where an event loop must not stand still.

        Raises
        ------
        InvalidInput
            If numba is missing or can't be loaded.
        """
        with self._warming:
            if self._new_scope is not None:
                return
            try:
                from daskevo.index.compiled.scope import Scope
            except ImportError as error:
                raise InvalidInput(
                    f"the prefix index needs numba, which can't be imported here ({error}): pip install numba"
                ) from error
            with self._lock.writing:
                self._new_scope = Scope
                waiting, self._waiting = self._waiting, {}
                for model_id, model in waiting.items():
                    self._put(model_id, model)

    def insert(
        self, scope: str, model_id: ModelId, ids: Sequence[VertexId] | bytes, rank: float | None, created: Tick
    ) -> None:
        """Add a model; one of the same id is replaced.

        Parameters
        ----------
        scope:
            Only queries of this scope find the model.
        ids:
            The ids of its graph's vertices, each 16 bytes, or all of them joined. # (n_vertices,)
        rank:
            Its quality as a figure that is larger for better models (:meth:`daskevo.types.Objective.rank`). None,
            NaN and infinities lose against every number.
        created:
            When it was published.

        Raises
        ------
        InvalidInput
            If `ids` are no vertex ids.
        """
        self.insert_many([Entry(scope, model_id, ids, rank, created)])

    def insert_many(self, entries: Iterable[Entry]) -> None:
        """Add models, all at one moment for those who query; raises as `insert` does, before any is added."""
        packed = [(entry.model_id, pack_model(entry)) for entry in entries]
        with self._lock.writing:
            for model_id, model in packed:
                self._remove(model_id)
                if self._new_scope is None:
                    self._waiting[model_id] = model
                else:
                    self._put(model_id, model)

    def _put(self, model_id: ModelId, model: PackedModel) -> None:
        assert self._new_scope is not None
        scope = self._scopes.get(model.scope)
        if scope is None:
            scope = self._scopes[model.scope] = self._new_scope()
        scope.add(model_id, model)

    def remove(self, model_id: ModelId) -> None:
        """Take a model out; nothing happens if it isn't there."""
        with self._lock.writing:
            self._remove(model_id)

    def _remove(self, model_id: ModelId) -> None:
        self._waiting.pop(model_id, None)
        for name, scope in self._scopes.items():
            if model_id in scope.blocks:
                scope.remove(model_id)
                if not scope.blocks:
                    # Memory follows what is stored: an empty scope keeps nothing.
                    del self._scopes[name]
                return

    def best(
        self,
        scope: str,
        ids: Sequence[VertexId] | bytes,
        weights: Sequence[int] | None = None,
        exclude: frozenset[ModelId] = frozenset(),
        edges: bytes | None = None,
    ) -> PrefixMatch | None:
        """Return the best match for a graph, or None if no model of the scope shares a vertex with it.

        Parameters
        ----------
        ids, weights, exclude, edges:
            As in :class:`Query`.

        Returns
        -------
        The largest :class:`PrefixMatch`: highest score, then highest rank, then youngest, then largest id.

        Raises
        ------
        InvalidInput
            If `ids` are no distinct vertex ids, or the weights or edges don't fit them.
        """
        return self._answers(scope, [pack_query(ids, weights, exclude, edges)])[0]

    def best_many(self, scope: str, queries: Iterable[Query]) -> list[PrefixMatch | None]:
        """Return the best match of each query, all as of one moment; raises as `best` does.

        One call of the compiled core answers all of them. It releases Python's global lock and lets other queries
        run; changes wait until all are answered.
        """
        return self._answers(scope, [pack_query(*query) for query in queries])

    def _answers(self, scope: str, queries: list[tuple[bytes, frozenset[ModelId]]]) -> list[PrefixMatch | None]:
        if self._new_scope is None:
            self.warm()
        assert self._new_scope is not None
        with self._lock.reading:
            # Queries of a scope without models are checked all the same.
            found = self._scopes.get(scope) or self._new_scope()
            return found.best_many(queries)
