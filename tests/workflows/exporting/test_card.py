"""Model cards: what is known and what isn't, hostile names, and the facts that programs read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.graph import ArchitectureGraph, LayerRecord
from daskevo_workflows.exporting import Card, read_card
from daskevo_workflows.exporting.facts import facts_of
from tests.cluster.helpers import chain
from tests.workflows.exporting.records import known, record

HOSTILE = '<script>alert("1")</script>|`x`\x1b[31m\n```\n# up'


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
