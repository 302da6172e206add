"""The commands: figures as JSON, and what is wrong in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daskevo_workflows.simulate.__main__ import main
from tests.simulate.costs import costs


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "costs.json"
    costs(query_s=1e-3).save(path)
    return str(path)


def test_a_search_prints_its_figures(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["search", "--costs", file, "--trainers", "4", "--evaluations", "12", "--set", "graph_s=0.5"])
    found = json.loads(capsys.readouterr().out)
    assert found["evaluations"] == 12
    assert found["loads"][0]["name"] == "search's process"


def test_a_share_may_be_frozen(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["search", "--costs", file, "--trainers", "4", "--evaluations", "12", "--freeze", "0.5"])
    assert json.loads(capsys.readouterr().out)["evaluations"] == 12


def test_queries_print_theirs(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["queries", "--costs", file, "--workers", "1", "8"])
    assert [row["providers"] for row in json.loads(capsys.readouterr().out)] == [1, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "coffee_s=1"], "coffee_s"),
        (["--shards", "0"], "shards=0"),
        (["--freeze", "all"], "no policy"),
        (["--set", "x"], "NAME"),
    ],
)
def test_what_is_wrong_is_said(file: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["search", "--costs", file, "--trainers", "4", "--evaluations", "12", *words])
    assert ended.value.code
    assert said in capsys.readouterr().err
