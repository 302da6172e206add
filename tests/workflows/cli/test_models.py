"""`models` and `verify` on a repository that a cluster has written and left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

import daskevo
from daskevo_workflows.cli import main
from daskevo_workflows.cli.json_lines import VERIFY_KEYS
from daskevo_workflows.cli.models_list import _short

pytestmark = pytest.mark.processes

WRITE = """
import sys
import daskevo
import numpy as np
from daskevo.repository import Snapshot

def net(classes):
    import keras
    inputs = keras.Input((8,))
    hidden = keras.layers.Dense(16, activation="relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(classes)(keras.layers.Dense(8, activation="relu")(hidden)))

EXTRA = {
    "first": None,
    "second": {"report": {"transfer": {"reason": "other settings", "words": "head\x1b", "inherited": 2, "layers": 3}}},
    "third": {"report": {"transfer": "much"}},
}

if __name__ == "__main__":
    with daskevo.local_cluster(trainers=1) as cluster, cluster.get_client() as client:
        digits = daskevo.open(sys.argv[1], "digits", client=client, objective="max val_accuracy")
        for number, (name, quality) in enumerate((("first", 0.5), ("second", 0.7), ("third", 0.9)), start=2):
            with digits.inherit(net(number), model_id=name) as child:
                child.put(metrics={"val_accuracy": quality}, step=number, labels=["user:paper"], extra=EXTRA[name])
            if name == "third":
                from daskevo.models import read_tensors
                weights = tuple(read_tensors(child.flat))
                state = Snapshot(child.graph, weights, {"optimizer/0000": np.ones(3)}, {"epoch": 4})
                digits.put_snapshot(state, name="state", step=4, base=name, labels=["request:run"])
        digits.release("first", "user:paper")
        losses = daskevo.open(sys.argv[1], "losses", client=client, objective="min loss")
        for name, loss in (("worse", 0.3), ("better", 0.1)):
            with losses.inherit(net(5), model_id=name, ancestor=False) as child:
                child.put(metrics={"loss": loss}, step=1)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("run")
    script = folder / "write.py"
    script.write_text(WRITE)
    subprocess.run([sys.executable, str(script), str(folder / "repository")], check=True, timeout=300)
    return folder / "repository"


def run(*command: object) -> Result:
    result = CliRunner().invoke(main, [str(word) for word in command])
    assert result.exit_code in (0, 1, 2), result.output
    return result


def test_ls_shows_the_best_of_each_scope_first(root: Path) -> None:
    lines = run("models", "ls", root).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["MODEL", "third", "second", "better", "worse"]
    rows = json.loads(run("models", "ls", root, "--scope", "losses", "--limit", 1, "--json").stdout)
    assert [(row["model"], row["quality"], row["labels"]) for row in rows] == [("better", 0.1, ["user:kept"])]


def test_a_label_of_a_models_own_run_is_said_by_its_kind() -> None:
    said = [
        _short(label, "mine-12-00001") for label in ("best:mine-12", "best:mine", "best:mine-1", "user:kept", "best:")
    ]
    assert said == ["best", "best:mine", "best:mine-1", "user:kept", "best:"]


def test_a_scope_that_is_not_there_names_those_that_are(root: Path) -> None:
    said = run("models", "ls", root, "--scope", "my_problem").stderr
    assert "Its scopes: digits, losses. A search's is the name in its problem, not its file's." in said


def test_snapshots_are_listed_when_asked_for_and_shown(root: Path) -> None:
    lines = run("models", "ls", root, "--snapshots").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["MODEL", "third", "second", "state", "better", "worse"]
    rows = json.loads(run("models", "ls", root, "--snapshots", "--scope", "digits", "--json").stdout)
    assert [(row["model"], row["own_bytes"]) for row in rows if row["scope"] == "digits.snapshots"] == [("state", 24)]
    shown = json.loads(run("models", "show", root, "state", "--json").stdout)
    assert (shown["ancestor"], shown["step"], shown["extra"]) == ("third", 4, {"epoch": 4})
    assert [layer["name"] for layer in shown["layers"]][-2:] == ["optimizer", "snapshot"]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # TensorFlow's, under numpy 2
def test_the_model_of_a_snapshot_is_loaded(root: Path) -> None:
    repository = daskevo.open(root)
    third, state = repository.load("third"), repository.load("state")
    assert [array.tobytes() for array in state.get_weights()] == [array.tobytes() for array in third.get_weights()]
    assert state.get_config() == {**third.get_config(), "name": "state"}


def test_a_runs_folder_stands_for_the_repository_inside(root: Path) -> None:
    assert run("models", "ls", root.parent).stdout == run("models", "ls", root).stdout


def test_show_says_in_which_model_each_layer_was_trained(root: Path) -> None:
    shown = json.loads(run("models", "show", root, "second", "--json").stdout)
    assert shown["ancestor"] == "first"
    assert [(layer["kind"], layer["owners"]) for layer in shown["layers"]] == [
        ("InputLayer", []),
        ("Dense", ["first"]),
        ("Dense", ["first"]),
        ("Dense", ["second"]),
    ]
    text = run("models", "show", root, "second").stdout
    assert "inherited from:  first" in text
    assert "inherited:       2 of 3 layers with weights, 0 frozen; then other settings: head\n" in text
    assert "inherited:       –\n" in run("models", "show", root, "third").stdout
    assert "108 B stored, 1.20 kiB as a full copy" in text


def test_lineage_goes_back_through_retired_models(root: Path) -> None:
    found = json.loads(run("models", "lineage", root, "third", "--json").stdout)
    assert [(entry["model"], entry["state"]) for entry in found["lineage"]][-1] == ("first", "retired")
    assert {share["model"] for share in found["contributors"]} == {"first", "third"}
    assert "first" in run("models", "lineage", root, "third").stdout


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # keras, saving
def test_export_writes_the_weights_that_are_stored(root: Path, tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    path = tmp_path / "third.keras"
    assert run("models", "export", root, "third", path).exit_code == 0
    exported = keras.models.load_model(path)
    stored = daskevo.open(root).load("third")
    assert [weight.numpy().tolist() for weight in exported.weights] == [w.numpy().tolist() for w in stored.weights]
    again = run("models", "export", root, "third", path)
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr
    assert run("models", "export", root, "third", path, "--overwrite").exit_code == 0


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("nobody", "UnknownModel"),
        ("first", "ModelRetired"),
        ("../x", "InvalidName"),
        ("", "InvalidName"),
        ("a" * 10_000, "InvalidName"),
        ("a\x1b[31m", "InvalidName"),
    ],
)
@pytest.mark.parametrize("command", ["show", "export"])
def test_a_model_that_is_not_there_is_said(root: Path, command: str, model: str, error: str) -> None:
    result = run("models", command, root, model)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {error}: ")
    assert len(result.stderr) < 500
    assert "\x1b" not in result.stderr


def test_a_model_of_another_name_is_suggested_with_a_command(root: Path) -> None:
    said = run("models", "show", root, "thirt").stderr
    assert f"there is no model 'thirt' in {root}; did you mean third? These are there: evo models ls {root}" in said
    assert f"evo models lineage {root} first" in run("models", "show", root, "first").stderr
    assert "did you mean" not in run("models", "lineage", root, "zzz").stderr


@pytest.mark.parametrize("name", ["third.h5", "nowhere/third.keras"])
def test_a_place_that_cannot_take_the_export_is_said(root: Path, tmp_path: Path, name: str) -> None:
    result = run("models", "export", root, "third", tmp_path / name)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: InvalidInput: ")


def test_verify_of_a_clean_root(root: Path) -> None:
    result = run("verify", root, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout.splitlines()[-1])
    assert tuple(found) == VERIFY_KEYS
    assert (found["clean"], found["differences"], found["models"]) == (True, [], 5)
    assert run("verify", root).stdout.startswith("clean: 5 models, ")


def test_verify_finds_a_damaged_segment_and_changes_nothing(root: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "repository"
    shutil.copytree(root, copy)
    segment = next(copy.glob("shards/*/segments/*third*"))
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2 :] = bytes(len(damaged) - len(damaged) // 2)
    segment.write_bytes(damaged)
    result = run("verify", copy, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["clean"] is False
    assert any("third" in difference for difference in found["differences"])
    assert found["differences"][0][:40] in result.stderr
    assert segment.read_bytes() == bytes(damaged)


def test_verify_of_no_repository_is_said(tmp_path: Path) -> None:
    result = run("verify", tmp_path / "nowhere", "--json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "RootUnusable" in result.stderr


def test_a_list_of_nothing_says_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study's folder has snapshots and no models."""
    summary = SimpleNamespace(model_id="snap-1", scope="digits.snapshots")
    look = SimpleNamespace(
        models=lambda scope, snapshots=False: [summary] if snapshots and scope != "nowhere" else [],
        connection=SimpleNamespace(damage={}),
    )
    monkeypatch.setattr(sys.modules["daskevo_workflows.cli.models_list"], "opened", lambda root: look)
    found = run("models", "ls", "there")
    assert (found.exit_code, found.stdout) == (0, "")
    assert found.stderr == (
        "There is no published model in there.\nIt has 1 snapshot of trainings, such as a study's:\n"
        "    evo models ls there --snapshots\n"
    )
    nothing = run("models", "ls", "there", "--scope", "nowhere", "--snapshots")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert nothing.stderr == "There is no published model of scope nowhere in there.\n"
    assert run("models", "ls", "there", "--json").stdout == "[]\n"
