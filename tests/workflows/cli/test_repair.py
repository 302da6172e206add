"""`daskevo verify --repair` says in words and in JSON what was mended, what is lost, and what isn't daskevo's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from click.testing import CliRunner

from daskevo_workflows.cli import main
from daskevo_workflows.cli.json_lines import VERIFY_KEYS

GOLDEN = Path(__file__).parents[2] / "corpus" / "golden" / "v1" / "root"


def test_a_repair_says_what_it_mended_and_what_is_lost(tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(GOLDEN, root)
    (root / "shards/000/segments/third.1-5.seg").unlink()
    (root / "scopes.json.01234567.tmp").write_text("{")
    (root / "notes.txt").write_text("mine")
    found = CliRunner().invoke(main, ["verify", str(root)])
    assert found.exit_code == 1
    assert found.stdout.splitlines()[-1].startswith("3 differences: 2 models, ")
    repaired = CliRunner().invoke(main, ["verify", str(root), "--repair"])
    assert repaired.exit_code == 0
    mended, lost, foreign, verdict = repaired.stdout.splitlines()
    assert mended.startswith("mended: leftover file: scopes.json.01234567.tmp, 1 bytes, ")
    assert lost.startswith("lost: third can't be loaded any more: ")
    assert lost.endswith("; retire it")
    assert foreign == "not daskevo's, left as it is: notes.txt"
    assert verdict.startswith("clean, 1 lost model: 2 models, ")
    again = json.loads(CliRunner().invoke(main, ["verify", str(root), "--json"]).stdout.splitlines()[-1])
    assert tuple(again) == VERIFY_KEYS
    assert (again["clean"], again["mended"], again["foreign"]) == (True, [], ["notes.txt"])
    assert [(lost["model"], lost["since"][:2]) for lost in again["lost"]] == [("third", "20")]


def test_models_that_cannot_be_loaded_are_named_when_they_are_rebuilt(tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(GOLDEN, root)
    assert CliRunner().invoke(main, ["verify", str(root)]).exit_code == 0
    found = CliRunner().invoke(main, ["verify", str(root), "--rebuild"])
    assert found.exit_code == 1
    second, third, verdict = found.stdout.splitlines()
    assert second.startswith("not rebuilt: Second can't be loaded here: layer ")
    assert third.startswith("not rebuilt: third can't be loaded here: layer ")
    assert verdict.startswith("2 differences: 2 models, ")
