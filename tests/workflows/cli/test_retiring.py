"""`daskevo models retire`: on a root at rest and on a running cluster; who is refused, and by which labels."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import daskevo
from daskevo.repository import Snapshot
from daskevo_workflows.cli import main
from daskevo_workflows.cli.clusters import a_cluster

GOLDEN = Path(__file__).parents[2] / "corpus" / "golden" / "v1" / "root"

pytestmark = pytest.mark.processes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of two models: ``third`` under ``user:kept``, ``Second`` under ``user:paper``."""
    shutil.copytree(GOLDEN, tmp_path / "root")
    return tmp_path / "root"


def retire(*words: object) -> Result:
    return CliRunner().invoke(main, ["models", "retire", *map(str, words)])


def test_labels_of_others_are_named_and_nothing_is_retired(root: Path) -> None:
    refused = retire(root, "third", "Second")
    assert refused.exit_code == 2
    assert "'Second' is held by user:paper. Nothing was retired. To take these labels away" in refused.stderr
    assert f"evo models retire {root} third Second --force" in refused.stderr
    assert {model.model_id for model in daskevo.open(root).models()} == {"Second", "third"}


@pytest.mark.parametrize(("model", "error"), [("thirt", "UnknownModel"), ("../x", "InvalidName")])
def test_a_model_that_is_not_there_is_said(root: Path, model: str, error: str) -> None:
    refused = retire(root, "third", model)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"Error: {error}: ")


@pytest.mark.long
def test_a_snapshot_is_retired_as_a_model_is(root: Path) -> None:
    with a_cluster(None, 1, providers=0) as client:
        repository = daskevo.open(root, "digits", client=client)
        repository.put_snapshot(Snapshot(None, (), {"x": np.ones(3)}), name="state", step=1)
    assert retire(root, "state").exit_code == 0
    look = daskevo.open(root, "digits")
    assert (look.status("state").state, look.snapshots()) == ("retired", [])


def test_a_lost_model_is_retired_at_rest_and_the_rest_is_clean(root: Path) -> None:
    (root / "shards/000/segments/third.1-5.seg").unlink()
    said = CliRunner().invoke(main, ["verify", str(root), "--repair"]).stderr
    assert f"evo models retire {root} third" in said
    found = retire(root, "third", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout) == {"retired": ["third"], "held": {}}
    again = CliRunner().invoke(main, ["verify", str(root)])
    assert again.exit_code == 0
    assert again.stdout.startswith("clean: 1 model, ")
    assert "ModelRetired" in retire(root, "third").stderr


def test_a_repository_in_use_is_changed_through_its_scheduler(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with daskevo.local_cluster(1, 0, dashboard_address=None) as cluster, cluster.get_client() as client:
        repository = daskevo.open(root, client=client)
        refused = retire(root, "third")
        assert refused.exit_code == 2
        assert refused.stderr.startswith("Error: RepositoryTaken: ")
        assert f"evo models retire {root} third --scheduler {cluster.scheduler_address}" in refused.stderr

        @contextlib.contextmanager
        def held_meanwhile(*chosen: Any, **options: Any) -> Iterator[Any]:
            repository.hold("third", "user:late")
            with a_cluster(*chosen, **options) as theirs:
                yield theirs

        with monkeypatch.context() as patch:
            patch.setattr("daskevo_workflows.cli.changed_repository.a_cluster", held_meanwhile)
            late = retire(root, "third", "--scheduler", cluster.scheduler_address)
        assert (late.exit_code, late.stdout) == (1, "retired 0 models\n")
        assert "'third' is held by user:late, given meanwhile" in late.stderr
        repository.hold("Second", "population:run")
        counted = retire(root, "Second", "--scheduler", cluster.scheduler_address).stderr
        assert "'Second' is held by population:run and user:paper. Nothing was retired. The run counts on it" in counted
        forced = retire(root, "third", "Second", "--force", "--scheduler", cluster.scheduler_address)
        assert forced.exit_code == 0, forced.output
        assert forced.stdout == "retired 2 models: third, Second\n"
        assert repository.models() == []
