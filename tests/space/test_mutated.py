"""Base models and mutators as a space: without Keras, as graphs alone."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import CandidateRejected, InvalidInput, InvalidMutation
from daskevo.runs.mismatch import differences
from daskevo.space import (
    UNBOUNDED,
    Candidate,
    Chain,
    InputMutator,
    InsertingMutator,
    ModelGraph,
    MutatedGraphs,
    Mutator,
    OperatorMutator,
    Size,
    cell_of,
    layer,
    named,
    of_kind,
    where,
)
from tests.space import bases


def base(hidden: int = 2) -> ModelGraph:
    return bases.base(hidden)


HIDDEN = named("hidden?")
RNG = np.random.default_rng(0)


OPERATORS = {"conv": layer("Conv2D", filters=4, kernel_size=3), "pool": layer("MaxPooling2D", pool_size=2)}


class Inception(Mutator):
    """Figure 6 of paper 003: the middle of a chain becomes two to five paths, each with an operator of its own."""

    targets = Chain(of_kind("ReLU"), of_kind("MaxPooling2D"), of_kind("Dense"))

    def mutate(self, graph: Any, match: Any, choose: Any) -> None:
        before, middle, after = match.nodes
        graph.delete(middle, bridge=False)
        for number in range(choose("paths", (2, 3, 4, 5))):
            label = choose(f"operator {number}", list(OPERATORS))
            way = graph.create(f"way_{number}", OPERATORS[label])
            graph.connect(before, way)
            graph.connect(way, after)


def test_figure_6() -> None:
    graph = ModelGraph("figure 4")
    place = graph.add_input("in", layer("InputLayer", batch_shape=(None, 8, 8, 1)))
    for kind in ("Conv2D", "ReLU", "MaxPooling2D", "Dense"):
        place = graph.create(kind.lower(), layer(kind), [place])
    graph.outputs = (place,)
    space = MutatedGraphs("inception", graph, [Inception()])
    assert space.size == Size("exact", 2**2 + 2**3 + 2**4 + 2**5)
    candidate = space.candidate(
        {
            "Inception/relu/paths": 3,
            "Inception/relu/operator 0": "pool",
            "Inception/relu/operator 1": "conv",
            "Inception/relu/operator 2": "pool",
        }
    )
    made = space.build(candidate)
    assert made["dense"].inputs == ("relu.way_0", "relu.way_1", "relu.way_2")
    assert [made[name].kind for name in made["dense"].inputs] == ["MaxPooling2D", "Conv2D", "MaxPooling2D"]
    assert "maxpooling2d" not in made
    assert made.untouched == ("in", "conv2d", "relu")
    assert made.history[0].choices == {}
    assert made.history[-1].choices["operator 2"] == "pool"
    assert {done.mutator for done in made.history} == {"Inception"}
    assert {done.at for done in made.history} == {("relu", "maxpooling2d", "dense")}
    assert [done.nodes for done in made.history if done.primitive == "delete"] == [("maxpooling2d",)]


def test_mutators_are_applied_in_order_to_all_places() -> None:
    widen = OperatorMutator(HIDDEN, {"8": layer("Dense", units=8), "16": layer("Dense", units=16)}, name="widen")
    after = InsertingMutator(HIDDEN, {"none": None, "relu": layer("ReLU")}, name="after")
    third = OperatorMutator(of_kind("ReLU"), [layer("ReLU"), layer("ELU"), None], name="third")
    space = MutatedGraphs("composed", base(), [widen, after, third])
    assert space.size == Size("exact", 2 * 2 * (1 + 3) ** 2)
    candidate = space.candidate(
        {
            "widen/hidden0/operator": "16",
            "widen/hidden1/operator": "8",
            "after/hidden0/operator": "none",
            "after/hidden1/operator": "relu",
            "third/hidden1.inserted/operator": "ELU()",
        }
    )
    made = space.build(candidate)
    assert [node.kind for node in made.nodes] == ["InputLayer", "Dense", "Dense", "ELU", "Dense"]
    assert made["hidden0"].config["units"] == 16
    assert len({space.build(each).digest() for each in space.enumerate()}) < 64, "choices may come to the same graph"


def test_the_base_is_a_choice_and_generated_graphs_are_bases() -> None:
    after = InsertingMutator(HIDDEN, {"none": None, "relu": layer("ReLU")}, name="after")
    first = MutatedGraphs("first", {"one": base(1), "two": base(2)}, [after])
    assert first.size == Size("exact", 2 + 4)
    generated = first.graph(first.candidate({"base": "one", "after/hidden0/operator": "relu"}))
    again = MutatedGraphs("again", generated, [after])
    made = again.graph(again.candidate({"after/hidden0/operator": "relu"}))
    assert [node.kind for node in made.nodes] == ["InputLayer", "Dense", "ReLU", "ReLU", "Dense"]
    assert len(set(made.order())) == 5
    # By hand, too.
    twice = after.apply(generated, lambda name, options: options[1])
    assert twice["hidden0.inserted"].inputs == ("hidden0.inserted.2",)
    assert len(twice.history) == len(generated.history) + 1


def test_an_input_mutator_never_makes_a_cycle() -> None:
    graph = base(3)
    graph.create("add", layer("Add"), ["hidden0", "hidden2"])
    graph.change_input("out", 0, "add")
    space = MutatedGraphs("inputs", graph, [InputMutator(HIDDEN | named("add"), of_kind("Dense"))])
    for _ in range(50):
        space.build(space.sample(RNG)).check()
    (choice,) = [c for c in space.choices_of(space.sample(RNG)) if c.name == "InputMutator/hidden0/input 0"]
    assert choice.options == ("in",)


class Loop(Mutator):
    targets = named("hidden0")

    def mutate(self, graph: Any, match: Any, choose: Any) -> None:
        if choose("loop", (True, False)):
            graph.connect("out", match.node)


class AlwaysLoop(Mutator):
    targets = named("hidden0")

    def mutate(self, graph: Any, match: Any, choose: Any) -> None:
        graph.connect("out", match.node)


class Twice(Mutator):
    targets = named("hidden0")

    def mutate(self, graph: Any, match: Any, choose: Any) -> None:
        choose("same", (1, 2))
        choose("same", (1, 2))


class HalfDone(Mutator):
    targets = named("hidden0")

    def mutate(self, graph: Any, match: Any, choose: Any) -> None:
        graph.delete(match.node, bridge=False)


def test_cycles_no_match_and_names_that_clash() -> None:
    with pytest.raises(InvalidMutation) as caught:
        MutatedGraphs("loops", base(), [AlwaysLoop()])
    assert (caught.value.reason, caught.value.nodes) == ("cycle", ("out", "hidden0"))
    assert "AlwaysLoop" in str(caught.value)
    space = MutatedGraphs("may loop", base(), [Loop()])
    assert space.size == Size("exact", 1)
    with pytest.raises(CandidateRejected, match="depends on"):
        space.candidate({"Loop/hidden0/loop": True})
    assert space.sample(RNG) == space.candidate({"Loop/hidden0/loop": False})

    with pytest.raises(InvalidMutation, match="matches nothing") as caught:
        MutatedGraphs("none", base(), [Loop(), InsertingMutator(of_kind("LSTM"), [layer("ReLU")])])
    assert caught.value.reason == "no-match"
    with pytest.raises(InvalidMutation, match="has no input") as caught:
        MutatedGraphs("dangling", base(), [HalfDone()])
    assert caught.value.reason == "dangling"
    with pytest.raises(InvalidInput, match=r"'Twice/hidden0/same' twice"):
        MutatedGraphs("clash", base(), [Twice()])
    for mutators, words in (
        ([Loop(), Loop()], "several mutators named 'Loop'"),
        ([Loop("stop")], "'stop'"),
        ([], "at least one base"),
        ([of_kind("Dense")], "Mutator objects"),
    ):
        with pytest.raises(InvalidInput, match=words):
            MutatedGraphs("bad", base(), mutators)  # type: ignore[arg-type]
    for options in ({"steps": 0}, {"grow": 0.9}, {"shrink": -1}):
        with pytest.raises(InvalidInput):
            MutatedGraphs("bad", base(), evolve=[Loop()], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "operators", [{}, [], {"a": "Dense"}, ["Dense"], [layer("ReLU"), layer("ReLU")], {1: layer("ReLU")}]
)
def test_operators_that_are_none_are_refused(operators: Any) -> None:
    with pytest.raises(InvalidInput):
        OperatorMutator(HIDDEN, operators)


def growing(**options: Any) -> MutatedGraphs:
    insert = InsertingMutator(of_kind("Dense") & ~named("out"), [layer("Dense", units=8), layer("ReLU")], name="insert")
    remove = OperatorMutator(named("*inserted*"), {"none": None}, name="remove")
    return MutatedGraphs("growing", base(1), evolve=[insert, remove], **options)


def steps_of(candidate: Candidate) -> int:
    return sum(name.endswith(" at") for name in candidate.names)


def test_an_evolving_space_grows_and_shrinks_by_steps() -> None:
    space = growing()
    assert space.size == UNBOUNDED
    with pytest.raises(InvalidInput, match="unbounded"):
        space.enumerate()
    rng = np.random.default_rng(1)
    candidate = space.candidate({"step 1": "stop"})
    assert len(space.graph(candidate)) == 3
    lengths: Counter[int] = Counter()
    longest = 0
    for _ in range(300):
        child = space.mutate(candidate, rng)
        assert child != candidate
        assert space.decode(json.loads(json.dumps(child.to_json()))) == child
        lengths[steps_of(child) - steps_of(candidate)] += 1
        longest = max(longest, steps_of(child))
        candidate = child
    # Half of the children are their parent and one step more, a fifth one step less.
    assert 100 < lengths[1] < 220
    assert 30 < lengths[-1] < 110
    assert longest > 5


class NamedAtTheEnd(Mutator):
    """Has a choice whose name ends as the names of places do."""

    targets = of_kind("Dense") & ~named("out")

    def mutate(self, graph: Any, match: Any, choose: Any) -> None:
        graph.replace(match.node, graph[match.node].layer.changed(units=choose("look at", (4, 8, 16))))


WIDEN = OperatorMutator(HIDDEN, {"8": layer("Dense", units=8), "16": layer("Dense", units=16)}, name="widen")
EVOLVING = {
    "unbounded": growing(),
    "bounded": growing(steps=3),
    "never by odds": growing(grow=0.0, shrink=0.0),
    "bases and mutators": MutatedGraphs(
        "several",
        {"one": base(1), "two": base(2)},
        [WIDEN],
        evolve=[InsertingMutator(HIDDEN, [layer("ReLU"), layer("ELU")], name="insert"), NamedAtTheEnd("named")],
        steps=5,
    ),
}


def real_steps(candidate: Candidate) -> int:
    return sum(name.startswith("step ") and name.endswith(" at") and ":" not in name for name in candidate.names)


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(sorted(EVOLVING)), seed=st.integers(0, 2**32 - 1), base_only=st.booleans())
def test_a_mutation_is_one_step_more_or_less_or_another_option(name: str, seed: int, base_only: bool) -> None:
    space, rng = EVOLVING[name], np.random.default_rng(seed)
    parent = space.draw(lambda choice: 0) if base_only else space.sample(rng)
    child = space.mutate(parent, rng)
    before, after = space.values(parent), space.values(child)
    change = real_steps(child) - real_steps(parent)
    assert change in (-1, 0, 1)
    if change:
        # One is the other without its last step.
        shorter, longer = (before, after) if change > 0 else (after, before)
        last = real_steps(child if change > 0 else parent)
        kept = {each: value for each, value in shorter.items() if each != f"step {last}"}
        assert kept.items() <= longer.items()
        return
    # The first difference is an option of a choice that both have; later ones stay where they exist.
    pairs = zip(before.items(), after.items(), strict=False)
    place = next(place for place, (one, other) in enumerate(pairs) if one != other)
    assert child.names[place] == parent.names[place]
    options = dict(zip(child.names, space.choices_of(child), strict=True))
    for each in child.names[place + 1 :]:
        if each in before and before[each] != "stop" and options[each].find(before[each]) is not None:
            assert after[each] == before[each]


def test_from_a_base_that_only_steps_can_change_a_mutation_is_a_step() -> None:
    space, rng = growing(), np.random.default_rng(3)
    first = space.candidate({"step 1": "stop"})
    assert {steps_of(space.mutate(first, rng)) for _ in range(200)} == {1}


def test_where_the_last_step_is_taken_a_mutation_goes_elsewhere() -> None:
    only = InsertingMutator(named("hidden0"), [layer("ReLU")], name="insert")
    space, rng = MutatedGraphs("one way", base(1), evolve=[only], steps=1), np.random.default_rng(4)
    longest = space.sample(np.random.default_rng(0))
    while not steps_of(longest):
        longest = space.sample(rng)
    assert {steps_of(space.mutate(longest, rng)) for _ in range(20)} == {0}


def test_runs_of_an_evolving_space_that_was_mutated_otherwise_are_others() -> None:
    now = growing().to_json()
    assert isinstance(now, dict)
    before = {name: value for name, value in now.items() if name != "mutation"}
    assert list(differences({"space": before}, {"space": now})) == ["space.mutation"]
    # The others never asked for other candidates.
    assert "mutation" not in MutatedGraphs("widened", base(1), [WIDEN]).to_json()  # type: ignore[operator]


def test_one_more_step_keeps_all_that_was() -> None:
    space = growing(grow=1.0, shrink=0.0)
    rng = np.random.default_rng(2)
    candidate = space.candidate({"step 1": "stop"})
    for step in range(1, 6):
        child = space.mutate(candidate, rng)
        assert child.names[: len(candidate.names) - 1] == candidate.names[:-1]
        assert child.values[: len(candidate.names) - 1] == candidate.values[:-1]
        assert (steps_of(child), child.names[-1]) == (step, f"step {step + 1}")
        # A mutator that matches nothing isn't offered.
        first = space.choices_of(child)[0]
        assert first.options == ("stop", "insert")
        candidate = child


def test_a_bounded_number_of_steps() -> None:
    space = growing(steps=2, grow=1.0, shrink=0.0)
    assert space.size.kind == "exact"
    every = list(space.enumerate())
    assert len(every) == len(set(every)) == space.size.count
    assert max(map(steps_of, every)) == 2
    longest = next(each for each in every if steps_of(each) == 2)
    assert space.mutate(longest, RNG) != longest


def test_spaces_are_known_by_bases_mutators_and_settings() -> None:
    def texts() -> list[str]:
        spaces = [
            growing(),
            growing(steps=3),
            MutatedGraphs("growing", base(2), [Loop()]),
            MutatedGraphs("growing", base(1), [Loop()]),
            MutatedGraphs("growing", base(1), [Loop("other")]),
            MutatedGraphs("growing", base(1), [InsertingMutator(HIDDEN, [layer("ReLU")])]),
            MutatedGraphs("growing", base(1), [InsertingMutator(HIDDEN, {"x": layer("ReLU")})]),
            MutatedGraphs("growing", base(1), [OperatorMutator(HIDDEN, {"x": cell_of(layer("ReLU"))}, keep=True)]),
            MutatedGraphs("growing", base(1), [OperatorMutator(HIDDEN, {"x": cell_of(layer("ELU"))}, keep=True)]),
            MutatedGraphs(
                "growing",
                base(1),
                [InputMutator(HIDDEN, where(lambda node: node.kind == "Dense"))],
            ),
        ]
        return [json.dumps(space.to_json()) for space in spaces]

    one, other = texts(), texts()
    assert one == other
    assert len(set(one)) == len(one)
    assert growing() == growing()
    assert growing() != growing(steps=3)


def test_the_source_of_ones_own_mutators_tells_spaces_apart() -> None:
    assert InsertingMutator(HIDDEN, [layer("ReLU")]).to_json()["source"] is None
    assert Loop().to_json()["source"] is not None
    assert Loop().to_json()["source"] != AlwaysLoop().to_json()["source"]


def test_odds_of_growing_that_are_not_the_defaults_identify_the_space() -> None:
    """With others a resumed run would ask for other candidates than one that was not interrupted."""
    usual = growing().to_json()
    assert growing(grow=0.5, shrink=0.2).to_json() == usual
    assert growing(grow=0.1).to_json() != usual
    assert growing(shrink=0.1).to_json() != growing(shrink=0.3).to_json()
