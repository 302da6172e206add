"""Model cards: what is known and what isn't, hostile names, and the facts that programs read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.graph import ArchitectureGraph, LayerRecord
from daskevo.space import (
    Choose,
    InsertingMutator,
    Match,
    ModelGraph,
    MutatedGraphs,
    Mutator,
    OperatorMutator,
    layer,
    of_kind,
)
from daskevo_workflows.exporting import Card, read_card
from daskevo_workflows.exporting.export import _custom
from daskevo_workflows.exporting.facts import facts_of
from daskevo_workflows.exporting.page import _md, page_of
from daskevo_workflows.exporting.space_facts import space_facts
from tests.cluster.helpers import chain
from tests.workflows.exporting.records import known, record

HOSTILE = '<script>alert("1")</script>|`x`\x1b[31m\n```\n# up'


def test_layers_of_packages_whose_names_begin_as_keras_does_are_custom() -> None:
    modules = ("keras.layers", "keras_hub.layers", "keras_mine", "keras")
    layers = [SimpleNamespace(config={"registered_name": f"{module}>L", "module": module}) for module in modules]
    custom = _custom(SimpleNamespace(graph=SimpleNamespace(layers=layers)))  # type: ignore[arg-type]
    assert custom == ["keras_hub.layers>L", "keras_mine>L"]


def test_without_a_run_the_card_says_what_it_does_not_know() -> None:
    graph = chain(8, 3)
    ancestor = record("first", graph)
    child = record("second", graph, {0: "first", 1: "first"}, ancestor="first")
    facts = facts_of(known(child, ancestor.tombstone()), None)
    assert [entry["model"] for entry in facts["lineage"]] == ["second", "first"]
    assert [(share["model"], share["bytes"]) for share in facts["contributors"]] == [("first", 160), ("second", 60)]
    assert [(layer["inherited"], layer["steps"]) for layer in facts["layers"]] == [(False, 0), (True, 91), (False, 45)]
    assert (facts["space"], facts["run"], facts["data"]["problem"]) == (None, None, None)
    assert len(facts["unknown"]) == 2
    page = str(Card(facts))
    assert "## What is not known\n\n- run, space, problem and settings of training: the repository was named" in page
    assert "| quality | val\\_accuracy 0.5 (higher is better) |" in page


def test_a_model_without_a_quality_says_so() -> None:
    facts = facts_of(known(record("a", chain(3), objective=None, quality=None, metrics={})), None, {"digest": "0" * 32})
    assert facts["unknown"][1:] == ["quality: none was put with the model, or its scope has no objective"]
    assert "| quality | not known |" in str(Card(facts))


def test_the_card_of_a_studys_snapshot_has_its_hyperparameters() -> None:
    configuration = {"constants": {"rate": 0.25}}
    facts = facts_of(known(record("snap-1", chain(3), extra={"trajectory": {"configuration": configuration}})), None)
    assert facts["training"]["hyperparameters"] == configuration
    assert '"rate": 0.25' in str(Card(facts)).partition("## Lineage")[0]


def hostile_facts() -> dict[str, Any]:
    plain = chain(3)
    layers = tuple(LayerRecord(HOSTILE, {"class_name": HOSTILE}, layer.tensors) for layer in plain.layers)
    graph = ArchitectureGraph(layers, plain.vertices, plain.inputs, plain.outputs)
    extra = {"report": {"transfer": {"reason": HOSTILE, "words": HOSTILE}, "ended": 1e300}}
    one = record("a", graph, metrics={HOSTILE: HOSTILE}, extra=extra)
    return facts_of(known(one, labels=(f"user:{HOSTILE}",)), None)


def test_hostile_names_are_shown_and_mean_nothing() -> None:
    page = str(Card(hostile_facts()))
    assert "<script" not in page
    assert "\x1b" not in page
    for line in page.splitlines():
        if line.startswith("| &lt;script"):
            # As many cells as the head has: no name adds one.
            assert line.replace("\\|", "").count("|") == 7
    assert page.count("```") == 2
    assert "\n# up" not in page


@pytest.mark.parametrize(
    "name", ["- a", "+", "---", "12. a", "===", "$a$", "@a", "http://a.b", "www.a.b", "[a](http://b)", "~~a~~", "a@b.c"]
)
def test_no_name_begins_a_list_or_becomes_a_link(name: str) -> None:
    shown = _md(name)
    assert shown.replace("\\", "") == name
    assert not re.match(r"[-+=]|\d+\.|.*(?<!\\)[$@~\[(]|.*(?<!\\)://|www\.", shown)
    assert _md("-0.5 of 1.5: 3") == "-0.5 of 1.5: 3"


def test_a_card_is_of_bounded_length() -> None:
    long, many = "x" * 1_000_000, {f"name {number}": "y" * 999 for number in range(1000)}
    facts = facts_of(known(record("a", chain(3), metrics={long: long, **many}), labels=(long, *many)), None)
    facts["space"] = {"name": long, "size": long, "choices": {long: [long] * 1000}, "chosen": {long: long, **many}}
    page = page_of(facts)
    assert len(page) < 300_000
    assert "and 951 more" in page
    assert "and 988 more" in page
    assert "\nand 601 more.\n" in page


def test_facts_are_read_back_whatever_stands_in_them(tmp_path: Path) -> None:
    facts = hostile_facts()
    path = tmp_path / "best.keras.card.md"
    path.write_text(str(Card(facts)))
    found = read_card(tmp_path / "best.keras")
    assert found.pop("format") == "daskevo model card"
    assert found.pop("version") == 1
    assert (
        found == json.loads(json.dumps(facts)) == {key: value for key, value in read_card(path).items() if key in facts}
    )


@pytest.mark.parametrize(
    "text", ["", "```json\n{}\n```\n", "```json\n[]\n```", '```json\n{"format": 1, "version": 2}\n```']
)
def test_what_is_no_card_is_said(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.card.md"
    path.write_text(text)
    with pytest.raises(CorruptRecord, match="is no model card that this daskevo reads"):
        read_card(path)
    with pytest.raises(InvalidInput, match="can't be read"):
        read_card(tmp_path / "nowhere.keras")


class Own(Mutator):
    """Asks for what only its code knows."""

    targets = of_kind("Dense")

    def mutate(self, graph: ModelGraph, match: Match, choose: Choose) -> None:
        choose("units", (16, 32))


def test_options_are_said_as_far_as_the_record_has_them() -> None:
    base = ModelGraph("base")
    base.add_input("x")
    base.create("a", layer("Dense", units=8), inputs=["x"])
    base.outputs = ("a",)
    operators = {"wide": layer("Dense", units=9), "none": None}
    space = MutatedGraphs(
        "grown",
        {"one": base, "two": base},
        [OperatorMutator(of_kind("Dense"), operators, keep=True, name="op/1"), Own("op")],
        evolve=[InsertingMutator(of_kind("Dense"), {"more": layer("Dense", units=3)}, name="grow")],
        steps=1,
    )
    options = {
        "base": ["one", "two"],
        "op/1/a/operator": ["as it is", "wide", "none"],
        "op/a/units": None,
        "step 1": ["stop", "grow"],
        "step 1 at": None,
        "step 1: operator": ["more"],
    }
    candidate = space.draw(lambda choice: 0 if "op" in choice.name else len(choice.options) - 1)
    found = zip(space.choices_of(candidate), candidate.values, strict=True)
    chosen = {choice.name: choice.options[index] for choice, index in found}
    facts = space_facts(json.loads(json.dumps(space.to_json())), chosen)
    assert list(chosen) == list(options)
    assert facts["choices"] == {name: one for name, one in options.items() if one}
    page = str(Card(facts_of(known(record("a", chain(3))), None) | {"space": facts}))
    assert "| op/1/a/operator | as it is | as it is, wide, none |" in page
    assert "| op/a/units | 16 | not in the record: the space's code makes them |" in page
    assert space_facts({"name": "chains", "source": "0"}, {"units": 8})["choices"] is None
    assert space_facts(None, {}) is None
    hostile = {"name": 1, "mutators": [1, {"name": "m", "operators": [1]}, {"name": []}], "evolve": 3, "bases": [[]]}
    names = {"base": 0, "m/a/operator": 0, "step 1: operator": 0, "step 1": []}
    assert space_facts(hostile, names)["choices"] == {"step 1": ["stop"]}
