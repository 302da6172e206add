"""The prefix index against brute force over random catalogues, while models come and go."""

from __future__ import annotations

import math
import sys
import threading
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from daskevo.errors import InvalidInput
from daskevo.graph import ArchitectureGraph, longest_common_prefix, weights
from daskevo.index import Entry, PrefixIndex, PrefixMatch, Query, pack_edges
from daskevo.testing.graphs import GraphBuilder, build, related_graphs, related_recipes
from daskevo.types import ModelId, Tick, VertexId

SCOPES = ("digits", "flights")
RANKS = st.sampled_from([None, math.nan, -math.inf, math.inf, -0.5, 0.0, 0.5])
TICKS = st.builds(Tick, st.integers(1, 2), st.integers(1, 3))
IDS = [VertexId(bytes([number]) * 16) for number in range(7)]
NAMES = st.sampled_from([ModelId(f"m{number}") for number in range(8)])


def edges_of(graph: ArchitectureGraph) -> bytes:
    return pack_edges((edge.source, target) for target, vertex in enumerate(graph.vertices) for edge in vertex.edges)


class _Stored(NamedTuple):
    scope: str
    graph: ArchitectureGraph
    rank: float | None
    created: Tick


def _brute_force(
    models: dict[ModelId, _Stored], scope: str, graph: ArchitectureGraph, by: str, exclude: frozenset[ModelId]
) -> PrefixMatch | None:
    """Compare with every model vertex by vertex and take the largest by the total order of the design."""
    values = weights(graph, by)
    found: list[PrefixMatch] = []
    for model_id, stored in models.items():
        if stored.scope != scope or model_id in exclude:
            continue
        prefix = longest_common_prefix(graph, stored.graph)
        if len(prefix):
            rank = stored.rank
            known = -math.inf if rank is None or math.isnan(rank) or math.isinf(rank) else rank
            found.append(PrefixMatch(sum(values[mine] for mine, _ in prefix.vertices), known, stored.created, model_id))
    return max(found, key=lambda match: (match.score, match.rank, match.created, match.model_id), default=None)


class ComeAndGo(RuleBasedStateMachine):
    """Inserts, replacements and removals in any order; after each, every query is answered as by brute force."""

    graphs = Bundle("graphs")
    stored_ids = Bundle("stored_ids")

    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex()
        self.models: dict[ModelId, _Stored] = {}

    @initialize(target=graphs, family=related_graphs(max_vertices=8, models=5))
    def draw_graphs(self, family: list[ArchitectureGraph]):
        return multiple(*family)

    @rule(
        target=stored_ids,
        name=NAMES,
        scope=st.sampled_from(SCOPES),
        graph=graphs,
        rank=RANKS,
        created=TICKS,
    )
    def insert(self, name: ModelId, scope: str, graph: ArchitectureGraph, rank: float | None, created: Tick) -> ModelId:
        self.index.insert(scope, name, graph.ids, rank, created)
        self.models[name] = _Stored(scope, graph, rank, created)
        return name

    @rule(name=consumes(stored_ids))
    def remove(self, name: ModelId) -> None:
        self.index.remove(name)
        self.models.pop(name, None)

    @rule(name=NAMES)
    def remove_what_may_not_be_there(self, name: ModelId) -> None:
        self.index.remove(name)
        self.models.pop(name, None)

    @rule(
        graph=graphs,
        scope=st.sampled_from(SCOPES),
        by=st.sampled_from(("vertex", "bytes")),
        exclude=st.frozensets(NAMES),
    )
    def ask(self, graph: ArchitectureGraph, scope: str, by: str, exclude: frozenset[ModelId]) -> None:
        expected = _brute_force(self.models, scope, graph, by, exclude)
        query = Query(graph.ids, weights(graph, by), exclude)
        assert self.index.best(scope, *query) == expected
        assert self.index.best(scope, *query._replace(edges=edges_of(graph))) == expected

    @invariant()
    def holds_what_was_inserted(self) -> None:
        assert len(self.index) == len(self.models)
        assert all(name in self.index for name in self.models)


TestComeAndGo = ComeAndGo.TestCase
TestComeAndGo.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@given(related_recipes(max_vertices=8, models=8), st.data())
@settings(max_examples=60)
def test_best_of_the_shards_is_best_of_all(family: list, data: st.DataObject) -> None:
    graph, *stored = map(build, family)
    shards = [PrefixIndex() for _ in range(3)]
    whole = PrefixIndex()
    for number, other in enumerate(stored):
        # Few ranks and ticks: ties are the point.
        arguments = ("digits", ModelId(f"m{number}"), other.ids, data.draw(RANKS), data.draw(TICKS))
        whole.insert(*arguments)
        shards[data.draw(st.integers(0, 2))].insert(*arguments)
    answers = [match for shard in shards if (match := shard.best("digits", graph.ids))]
    assert max(answers, default=None) == whole.best("digits", graph.ids)


@given(
    st.lists(st.tuples(st.frozensets(st.sampled_from(IDS), min_size=1), RANKS, TICKS), max_size=10),
    st.dictionaries(st.sampled_from(IDS), st.integers(1, 5), min_size=1),
)
@settings(max_examples=300)
def test_is_exact_for_any_sets_and_weights(models: list, values: dict[VertexId, int]) -> None:
    index = PrefixIndex()
    scores = {}
    for number, (ids, rank, created) in enumerate(models):
        name = ModelId(f"m{number}")
        index.insert("digits", name, sorted(ids), rank, created)
        score = sum(value for vertex_id, value in values.items() if vertex_id in ids)
        if score:
            scores[name] = (score, rank if rank in (-0.5, 0.0, 0.5) else -math.inf, created, name)
    match = index.best("digits", list(values), list(values.values()))
    assert (match and tuple(match)) == max(scores.values(), default=None)


def _chain(*units: int) -> ArchitectureGraph:
    builder = GraphBuilder()
    vertex = builder.input(4)
    for width in units:
        vertex = builder.dense(vertex, width)
    return builder.graph(vertex)


def _index(*models: tuple[str, tuple[int, ...], float | None, Tick]) -> PrefixIndex:
    index = PrefixIndex()
    for name, units, rank, created in models:
        index.insert("digits", ModelId(name), _chain(*units).ids, rank, created)
    return index


@pytest.mark.parametrize(
    ("models", "winner"),
    [
        ([("long", (8, 16), None, Tick(1, 1)), ("good", (8, 32), 0.9, Tick(1, 2))], "long"),
        ([("good", (8, 16), 0.9, Tick(1, 1)), ("young", (8, 16), 0.8, Tick(2, 1))], "good"),
        ([("young", (8, 16), 0.9, Tick(2, 1)), ("old", (8, 16), 0.9, Tick(1, 9))], "young"),
        ([("b", (8, 16), 0.9, Tick(1, 1)), ("a", (8, 16), 0.9, Tick(1, 1))], "b"),
        ([("bad", (8, 16), -5.0, Tick(1, 1)), ("unknown", (8, 16), math.nan, Tick(1, 2))], "bad"),
        ([("bad", (8, 16), -5.0, Tick(1, 1)), ("infinite", (8, 16), math.inf, Tick(1, 2))], "bad"),
    ],
    ids=["score first", "then rank", "then youth", "then id", "NaN loses", "infinity loses"],
)
def test_total_order(models: list, winner: str) -> None:
    query = _chain(8, 16, 2).ids
    for order in (models, models[::-1]):
        match = _index(*order).best("digits", query)
        assert match is not None
        assert match.model_id == winner


def test_no_answer_without_a_shared_vertex() -> None:
    index = PrefixIndex()
    ids = _chain(8).ids
    assert index.best("digits", ids) is None
    index.insert("digits", ModelId("m"), ids, 0.5, Tick(1, 1))
    assert index.best("flights", ids) is None
    assert index.best("digits", ids, exclude=frozenset({ModelId("m")})) is None
    assert index.best("digits", [VertexId(bytes(16))]) is None
    assert index.best("digits", []) is None


def test_many_queries_are_answered_in_order() -> None:
    index = _index(("a", (8,), 0.1, Tick(1, 1)), ("b", (16,), 0.2, Tick(1, 2)))
    a, b = _chain(8), _chain(16)
    queries = [
        Query(a.ids),
        Query(b.ids, weights(b, "bytes")),
        Query(b"".join(b.ids), edges=edges_of(b)),
        Query([VertexId(bytes(16))]),
        Query([]),
        Query(a.ids, exclude=frozenset({ModelId("a")})),
    ]
    assert index.best_many("digits", queries) == [index.best("digits", *query) for query in queries]
    assert [match and match.model_id for match in index.best_many("digits", queries)] == [
        *("a", "b", "b", None, None, "b")
    ]
    assert index.best_many("flights", queries) == [None] * 6
    assert index.best_many("digits", []) == []


def test_a_replaced_model_is_found_as_it_is_now() -> None:
    index = _index(("m", (8, 16), 0.9, Tick(1, 1)))
    index.insert("flights", ModelId("m"), _chain(8).ids, 0.1, Tick(1, 2))
    assert len(index) == 1
    assert index.best("digits", _chain(8, 16).ids) is None
    assert index.best("flights", _chain(8, 16).ids) == PrefixMatch(2, 0.1, Tick(1, 2), ModelId("m"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Query(["x" * 16]), "no vertex ids"),
        (Query([b"short"]), "no vertex ids"),
        (Query(b"short"), "no vertex ids"),
        (Query([bytes(16)] * 2), "distinct"),
        (Query(bytes(32)), "distinct"),
        (Query([bytes(16)], []), "one positive int"),
        (Query([bytes(16)], [0]), "one positive int"),
        (Query([bytes(16)], [1.5]), "one positive int"),
        (Query([bytes(16)], [True]), "one positive int"),
        (Query(IDS[:2], [2**62, 2**62]), "less than"),
        (Query(IDS[:2], edges=b"odd"), "pairs"),
        (Query(IDS[:2], edges=pack_edges([(0, 2)])), "earlier to later"),
        (Query(IDS[:2], edges=pack_edges([(-1, 0)])), "earlier to later"),
        (Query(IDS[:2], edges=pack_edges([(1, 1)])), "earlier to later"),
        (Query(IDS[:3], edges=pack_edges([(0, 2)]) + pack_edges([(0, 1)])), "earlier to later"),
    ],
)
@pytest.mark.parametrize("models", [0, 1])
def test_bad_queries_are_refused(query: Query, message: str, models: int) -> None:
    index = PrefixIndex()
    for number in range(models):
        index.insert("digits", ModelId(f"m{number}"), IDS, 0.5, Tick(1, 1))
    with pytest.raises(InvalidInput, match=message):
        index.best("digits", *query)
    with pytest.raises(InvalidInput, match=message):
        index.best_many("digits", [Query(IDS), query])


def test_the_largest_weights_are_added_exactly() -> None:
    index = PrefixIndex()
    index.insert("digits", ModelId("m"), IDS, 0.5, Tick(2**62, 2**63 - 1))
    match = index.best("digits", IDS[:2], [2**62, 2**62 - 1])
    assert match == PrefixMatch(2**63 - 1, 0.5, Tick(2**62, 2**63 - 1), ModelId("m"))


def test_a_refused_model_leaves_the_index_as_it_was() -> None:
    index = _index(("m", (8,), 0.9, Tick(1, 1)))
    with pytest.raises(InvalidInput, match="no vertex ids"):
        index.insert("digits", ModelId("m"), [VertexId(b"x")], 0.1, Tick(1, 2))
    assert index.best("digits", _chain(8).ids) == PrefixMatch(2, 0.9, Tick(1, 1), ModelId("m"))


def test_a_refused_batch_adds_nothing() -> None:
    index = PrefixIndex()
    good = Entry("digits", ModelId("good"), _chain(8).ids, 0.1, Tick(1, 1))
    with pytest.raises(InvalidInput, match="no vertex ids"):
        index.insert_many([good, good._replace(model_id=ModelId("bad"), ids=[VertexId(b"x")])])
    assert len(index) == 0
    index.insert_many([good, good._replace(rank=0.2)])
    assert index.best("digits", _chain(8).ids) == PrefixMatch(2, 0.2, Tick(1, 1), ModelId("good"))


def test_models_wait_until_the_core_is_loaded() -> None:
    index = _index(("a", (8,), 0.9, Tick(1, 1)), ("b", (8, 16), 0.1, Tick(1, 2)), ("c", (8, 16), 0.3, Tick(1, 3)))
    index.insert("digits", ModelId("b"), _chain(8, 16).ids, 0.2, Tick(1, 4))
    index.remove(ModelId("c"))
    assert (index.is_warm, index.nbytes, len(index), "b" in index, "c" in index) == (False, 0, 2, True, False)
    index.warm()
    assert (index.is_warm, len(index), "b" in index, "c" in index) == (True, 2, True, False)
    assert index.best("digits", _chain(8, 16).ids) == PrefixMatch(3, 0.2, Tick(1, 4), ModelId("b"))


def test_threads_see_whole_models() -> None:
    # Writers insert and remove models of full score; a reader must see all of one or none, and no exception.
    index = _index(("rest", (8,), None, Tick(1, 1)))
    query = _chain(*range(8, 108))
    stop = threading.Event()
    failures: list[BaseException] = []

    def write(name: ModelId) -> None:
        try:
            while not stop.is_set():
                index.insert("digits", name, query.ids, 0.5, Tick(1, 2))
                index.remove(name)
        except BaseException as error:  # noqa: BLE001 - a thread must hand over whatever ended it
            failures.append(error)

    writers = [threading.Thread(target=write, args=(ModelId(f"w{number}"),)) for number in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for writer in writers:
            writer.start()
        ask = Query(query.ids)
        answers = [[*index.best_many("digits", [ask, ask]), index.best("digits", *ask)] for _ in range(100)]
    finally:
        stop.set()
        for writer in writers:
            writer.join()
        sys.setswitchinterval(interval)
    assert failures == []
    assert {match and match.score for answer in answers for match in answer} <= {2, 101}
    assert all(first == second for first, second, _ in answers)
    assert len(index) == 1
