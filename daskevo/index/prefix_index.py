"""The prefix index: which of many models shares the longest prefix with a given architecture graph.

Source: paper 000, section 4.2 (longest common prefix queries over the models of a provider). Ids of vertices contain
their ancestor cones (:mod:`daskevo.graph.identity`), so the prefix of a graph with a model is the set of ids that both
have, and its score is the weight of that set. How a query is answered without looking at every model is told in
:mod:`daskevo.index.compiled.search`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from daskevo.errors import InvalidInput
from daskevo.index.query import Entry, PackedModel, PrefixMatch, Query, pack_model, pack_query
from daskevo.index.read_write_lock import ReadWriteLock
from daskevo.types import ModelId, Tick, VertexId

if TYPE_CHECKING:
    from daskevo.index.compiled_scope import Scope

_NUMBERS = 1 << 40
_NOBODY: Mapping[ModelId, int] = {}


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
        # Model -> number of its scope * _NUMBERS + its number there: one int, not a tuple, for a million models.
        self._places: dict[ModelId, int] = {}
        self._scopes: list[Scope | None] = []
        self._scope_numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._places) + len(self._waiting)

    def __contains__(self, model_id: object) -> bool:
        return model_id in self._places or model_id in self._waiting

    @property
    def nbytes(self) -> int:
        """Bytes of the compiled core's arrays."""
        with self._lock.reading:
            return sum(scope.nbytes for scope in self._scopes if scope is not None)

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
                from daskevo.index.compiled_scope import Scope
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
        number = self._scope_numbers.get(model.scope)
        if number is None:
            assert self._new_scope is not None
            scope = self._new_scope()
            number = self._scopes.index(None) if None in self._scopes else len(self._scopes)
            self._scopes[number : number + 1] = [scope]
            self._scope_numbers[model.scope] = number
        found = self._scopes[number]
        assert found is not None
        self._places[model_id] = number * _NUMBERS + found.add(model_id, model)

    def remove(self, model_id: ModelId) -> None:
        """Take a model out; nothing happens if it isn't there."""
        with self._lock.writing:
            self._remove(model_id)

    def _remove(self, model_id: ModelId) -> None:
        self._waiting.pop(model_id, None)
        place = self._places.pop(model_id, None)
        if place is None:
            return
        number, member = divmod(place, _NUMBERS)
        scope = self._scopes[number]
        assert scope is not None
        scope.remove(member)
        if not len(scope):
            # Memory follows what is stored: an empty scope keeps nothing.
            self._scopes[number] = None
            self._scope_numbers = {name: kept for name, kept in self._scope_numbers.items() if kept != number}

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
        query = pack_query(ids, weights, exclude, edges)
        self._load()
        with self._lock.reading:
            number = self._scope_numbers.get(scope)
            found = self._nothing() if number is None else self._scopes[number]
            assert found is not None
            return found.best(query, self._numbers(number, exclude) if exclude else _NOBODY)

    def best_many(self, scope: str, queries: Iterable[Query]) -> list[PrefixMatch | None]:
        """Return the best match of each query, all as of one moment; raises as `best` does.

        One call of the compiled core, which holds neither Python's global lock nor up other queries; changes wait
        until all are answered.
        """
        packed = [pack_query(*query) for query in queries]
        if not packed:
            return []
        self._load()
        with self._lock.reading:
            number = self._scope_numbers.get(scope)
            found = self._nothing() if number is None else self._scopes[number]
            assert found is not None
            return found.best_many(packed, [self._numbers(number, query.exclude) for query in packed])

    def _load(self) -> None:
        if self._new_scope is None:
            self.warm()

    def _nothing(self) -> Scope:
        """A scope without models: queries are checked there all the same."""
        assert self._new_scope is not None
        return self._new_scope()

    def _numbers(self, scope: int | None, models: Iterable[ModelId]) -> dict[ModelId, int]:
        """Return the numbers of those of the models that are in a scope."""
        numbers = {}
        for model_id in models:
            place = self._places.get(model_id)
            if place is not None and place // _NUMBERS == scope:
                numbers[model_id] = place % _NUMBERS
        return numbers
