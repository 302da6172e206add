"""Blame, difference and family of records made by hand; Graphviz text is parsed again."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest

from daskevo.types import ModelId
from daskevo_workflows.comparing.blame import blame
from daskevo_workflows.comparing.difference import difference
from daskevo_workflows.comparing.family import FamilyMember, best_of, dot_of, family_of, quoted, tree_of
from tests.cluster.helpers import chain
from tests.workflows.exporting.records import record


def test_blame_names_the_model_that_trained_each_tensor_last() -> None:
    graph = chain(8, 3)
    first = record("first", graph, quality=0.4)
    second = record("second", graph, {0: "first", 1: "first", 2: "gone"})
    owners = {
        ModelId("first"): ("retired", first.tombstone()),
        ModelId("gone"): ("unknown", None),
        ModelId("second"): ("published", second),
    }
    lines = blame(second, graph, owners, lambda whose: 7.0 if whose.model_id == "first" else None)
    found = [(line.tensors, line.model, line.steps, line.quality, line.ended, line.state) for line in lines]
    assert found == [
        (2, "first", 91, 0.4, 7.0, "retired"),
        (1, "gone", 92, None, None, "unknown"),
        (1, "second", 45, 0.5, None, "published"),
    ]
    assert sum(line.nbytes for line in lines) == graph.nbytes


def test_difference_tells_shared_layers_from_those_trained_apart() -> None:
    mine, theirs = chain(8, 3), chain(8, 3, 5)
    first = record("first", mine)
    second = record("second", theirs, {0: "first", 1: "first"})
    found = difference(first, mine, second, theirs)
    assert [(pair.relation, pair.trained_second) for pair in found.layers] == [
        ("same", ()),
        ("shared", ("first",)),
        ("equal", ("second",)),
        ("only in B", ("second",)),
    ]
    assert (found.prefix, found.shared_tensors, found.shared_bytes) == (3, 2, 160)


def test_difference_names_the_settings_that_differ() -> None:
    mine, theirs = chain(8, 3), chain(8, 5)
    found = difference(record("a", mine), mine, record("b", theirs), theirs)
    assert [pair.relation for pair in found.layers] == ["same", "equal", "other settings"]
    assert found.layers[-1].settings
    backwards = difference(record("b", theirs), theirs, record("a", mine), mine)
    assert {name: pair[::-1] for name, pair in backwards.layers[-1].settings.items()} == found.layers[-1].settings


def members() -> list[FamilyMember]:
    graph = chain(8, 3)
    first = record("first", graph)
    second = record("second", graph, {0: "first", 1: "first"}, ancestor="first", parent="other", quality=0.7)
    third = record("third", graph, {0: "first", 1: "first"}, ancestor="first", parent="second", quality=0.6)
    return [
        FamilyMember.of(first.tombstone(), "retired"),
        FamilyMember.of(second, "published"),
        FamilyMember.of(third, "published"),
    ]


def test_a_tree_has_each_model_once_after_its_ancestor() -> None:
    family = family_of(members())
    assert [(depth, member.model) for depth, member in tree_of(family)] == [(0, "first"), (1, "second"), (1, "third")]
    assert best_of(family) == {"second"}
    assert family[ModelId("second")].inherited == pytest.approx(160 / 220)


def parsed(text: str) -> tuple[dict[str, dict[str, str]], list[tuple[str, str, dict[str, str]]]]:
    """Parse what Graphviz' grammar allows of a digraph without subgraphs: nodes and edges with their attributes."""
    tokens = re.findall(r'"(?:\\.|[^"\\])*"|->|[A-Za-z_]\w*|[{}\[\]=,;]|[0-9.]+|\S', text)
    position = 0

    def take(*wanted: str) -> str:
        nonlocal position
        token = tokens[position]
        assert not wanted or token in wanted, (token, wanted)
        position += 1
        return token

    def identifier() -> str:
        token = take()
        assert re.fullmatch(r'"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|[0-9.]+', token, re.DOTALL), token
        return token

    def attributes() -> dict[str, str]:
        found: dict[str, str] = {}
        if tokens[position] == "[":
            take("[")
            while tokens[position] != "]":
                name = identifier()
                take("=")
                found[name] = identifier()
                if tokens[position] == ",":
                    take(",")
            take("]")
        return found

    nodes: dict[str, dict[str, str]] = {}
    edges: list[tuple[str, str, dict[str, str]]] = []
    take("digraph")
    identifier()
    take("{")
    while tokens[position] != "}":
        name = identifier()
        if tokens[position] == "=":
            take("=")
            identifier()
        elif tokens[position] == "->":
            take("->")
            edges.append((name, identifier(), attributes()))
        else:
            nodes[name] = attributes()
        take(";")
    take("}")
    assert position == len(tokens)
    return nodes, edges


def check_with_graphviz(text: str) -> None:
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tcanon"], input=text, text=True, check=True, capture_output=True, timeout=60)


def test_graphviz_text_has_every_model_and_who_inherited_from_whom() -> None:
    text = dot_of(family_of(members()))
    nodes, edges = parsed(text)
    assert [name for name in nodes if name.startswith('"')] == ['"first"', '"second"', '"third"']
    assert [(first, second, "dashed" in look.values()) for first, second, look in edges] == [
        ('"first"', '"second"', False),
        ('"first"', '"third"', False),
        ('"second"', '"third"', True),
    ]
    assert edges[0][2] == {"label": '"73 %"'}
    assert "dashed" in nodes['"first"']["style"]
    assert "penwidth" in nodes['"second"']
    check_with_graphviz(text)


@pytest.mark.parametrize("name", ['a"];b->c;"', "back\\", 'both\\"', "line\nbreak", "\\N", "</TABLE>"])
def test_no_name_leaves_its_quotes(name: str) -> None:
    fields: dict[str, Any] = {"parent": None, "state": "published", "scope": name, "objective": None, "quality": None}
    one = FamilyMember(ModelId(name), None, step=1, inherited=None, **fields)
    text = dot_of({ModelId(name): one})
    nodes, edges = parsed(text)
    assert (set(nodes), edges) == ({"node", "edge", quoted(name)}, [])
    check_with_graphviz(text)
