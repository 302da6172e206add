"""Models of a search that is over, taken out: from Python, by the command, and into a place without daskevo."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import daskevo
from daskevo.errors import InvalidInput, ModelRetired
from daskevo_workflows import nas
from daskevo_workflows.cli import main
from daskevo_workflows.exporting import FORMATS, export_model, read_card
from daskevo_workflows.problems import load_problem
from tests.tmpfs import own_disk

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras, under numpy 2
]

ELSEWHERE = """
import sys

class NoDaskevo:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].startswith("daskevo"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoDaskevo())
sys.path += sys.argv[3:]
import json
import re
from pathlib import Path

import numpy as np

x = np.load(sys.argv[1])
found = {}
for path in sorted(Path(sys.argv[2]).glob("*.card.md")):
    card = path.read_text()
    names = {}
    exec(re.search("```python\\n(.*?)```", card, re.DOTALL)[1], names)
    found[path.name] = np.asarray(names["model"](x), np.float32).tobytes().hex()
assert not [name for name in sys.modules if name.startswith("daskevo")]
print(json.dumps(found))
"""


def typed(*command: object) -> Result:
    return CliRunner().invoke(main, ["models", *map(str, command)])


def needs_safetensors() -> None:
    pytest.importorskip("safetensors", reason="safetensors isn't installed: pip install safetensors")


def elsewhere(folder: Path, x: Any) -> Mapping[str, str]:
    """Return what a process that can't import daskevo makes of the cards in a folder: outputs by card."""
    np.save(folder / "x.npy", x)
    # Without `site`, editable installs aren't there either.
    command = [sys.executable, "-I", "-S", "-c", ELSEWHERE, "x.npy", ".", sysconfig.get_path("purelib")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    found: Mapping[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.long
def test_exports_predict_the_same_where_there_is_no_daskevo(run: Any, tmp_path: Path) -> None:
    needs_safetensors()
    look = daskevo.open(run.root)
    best = run.result.best(1)[0].model_id
    x = load_problem(run.problem).data().validation[0][:5]
    wanted = {}
    for name in (best, "half"):
        outputs = np.asarray(look.load(name)(x), np.float32).tobytes().hex()
        for kind in FORMATS:
            export_model(look, name, tmp_path / f"{name}{kind}", run=run.folder)
            wanted[f"{name}{kind}.card.md"] = outputs
    assert elsewhere(tmp_path, x) == wanted


def test_best_models_of_a_stopped_run_come_with_score_lineage_and_card(run: Any, tmp_path: Path) -> None:
    """Without a cluster: a look at the repository is enough."""
    result = nas.Result(run.folder, daskevo.open(run.root))
    best = result.best(2)
    x, y = load_problem(run.problem).data().validation
    for found in best:
        assert np.mean(np.asarray(found.model(x)).argmax(1) == y) == pytest.approx(found.quality)
        facts = found.card.facts
        assert [record.model_id for record in found.lineage] == [entry["model"] for entry in facts["lineage"]]
        assert facts["quality"]["value"] == found.quality
        assert facts["space"]["chosen"] == dict(found.choices)
    done = best[0].export(tmp_path / "best.keras", data=load_problem(run.problem).data())
    assert done.facts["data"]["train"]["x"] == [{"name": "", "shape": [64, 8], "dtype": "float32"}]
    assert len(str(done.facts["data"]["digest"])) == 32
    assert (done.path, done.card) == (tmp_path / "best.keras", tmp_path / "best.keras.card.md")


def test_a_card_says_what_the_run_knows(run: Any, tmp_path: Path) -> None:
    heir = next(report for report in run.result.reports if report.transferred)
    facts = run.result.best(1)[0].card.facts
    assert facts["space"]["name"] == "tiny"
    assert facts["space"]["size"] == "12"
    assert facts["training"]["epochs"] == 1
    assert facts["training"]["batch_size"] == 16
    assert facts["run"]["id"] == run.result.info.id
    assert facts["data"]["inputs"][0]["shape"] == [None, 8]
    assert facts["unknown"] == ["the data's shapes and digest: a run's record has only its problem's name and digest"]
    assert facts["versions"].keys() >= {"daskevo", "keras"}
    standing = daskevo.open(run.root).status(heir.model_id)
    if standing.state == "published":
        done = export_model(daskevo.open(run.root), heir.model_id, tmp_path / "heir.keras", run=run.folder)
        assert any(layer["inherited"] for layer in done.facts["layers"])
        assert done.facts["inherited"]["frozen"] >= 1


def test_the_command_exports_the_best_of_a_run(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    best = [found.model_id for found in run.result.best(2)]
    assert typed("export", run.folder, "best.keras").stdout == "best.keras\n"
    assert read_card("best.keras")["model"] == best[0]
    assert typed("export", run.folder, "--format", ".weights.h5").stdout == f"{best[0]}.weights.h5\n"
    several = typed("export", run.folder, "--best", 2, "winners", "--json")
    assert [row["model"] for row in json.loads(several.stdout)["exported"]] == best
    assert sorted(path.name for path in Path("winners").iterdir()) == sorted(
        f"{place}-{name}.keras{more}" for place, name in enumerate(best, 1) for more in ("", ".card.md")
    )
    again = typed("export", run.folder, "--best", 2, "winners")
    assert (again.exit_code, "--overwrite" in again.stderr) == (2, True)
    assert typed("export", run.folder, "--best", 2, "winners", "--overwrite").exit_code == 0


def test_of_the_best_those_that_are_retired_are_named(run: Any, tmp_path: Path) -> None:
    look = daskevo.open(run.root)
    names = [found.model_id for found in run.result.best(7)]
    gone = [name for name in names if look.status(name).state != "published"]
    assert gone
    some = typed("export", run.folder, "--best", 7, tmp_path / "all")
    assert some.exit_code == 1
    assert f"the others have been retired: {', '.join(gone)}." in some.stderr
    assert len(list((tmp_path / "all").glob("*.keras"))) == 7 - len(gone)
    one = typed("export", run.folder, gone[0], tmp_path / "gone.keras")
    assert (one.exit_code, one.stderr.startswith("Error: ModelRetired")) == (2, True)
    with pytest.raises(ModelRetired):
        _ = run.result.best(names.index(gone[0]) + 1)[-1].card


def test_a_repository_of_several_scopes_has_no_best(run: Any, tmp_path: Path) -> None:
    said = typed("export", run.root, tmp_path / "best.keras")
    assert said.exit_code == 2
    assert "models of the scopes halves, tiny: name one model" in said.stderr


@pytest.mark.parametrize("kind", FORMATS)
def test_a_full_disk_leaves_what_was_there(kind: str, run: Any, tmp_path: Path) -> None:
    if kind == ".safetensors":
        needs_safetensors()
    with own_disk(tmp_path / "disk", 8192) as disk:
        path = disk / f"half{kind}"
        path.write_text("old")
        with pytest.raises(InvalidInput, match="can't be written") as caught:
            export_model(daskevo.open(run.root), "half", path, overwrite=True)
        assert "are free there" in caught.value.message
        assert [(file.name, file.read_text()) for file in disk.iterdir()] == [(path.name, "old")]


def test_places_that_cannot_take_it_are_said(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = daskevo.open(run.root)
    (tmp_path / "folder.keras").mkdir()
    for path, why in (
        (tmp_path / "folder.keras", "is a folder"),
        (tmp_path / "no" / "x.keras", "is no folder"),
        (tmp_path / "x.h5", "older .h5"),
        (Path("/proc/x.keras"), "may not be written to|can't be written"),
    ):
        with pytest.raises(InvalidInput, match=why):
            export_model(look, "half", path, overwrite=True)
    (tmp_path / "x.weights.h5.config.json").touch()
    with pytest.raises(InvalidInput, match=r"config\.json is there already"):
        export_model(look, "half", tmp_path / "x.weights.h5")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(InvalidInput, match="pip install safetensors"):
        export_model(look, "half", tmp_path / "x.safetensors")


def test_blame_diff_and_lineage_of_a_run(run: Any) -> None:
    look = daskevo.open(run.root)
    heir = next(
        r for r in reversed(run.result.reports) if r.transferred and look.status(r.model_id).state == "published"
    )
    assert heir.ancestor is not None
    lines = json.loads(typed("blame", run.folder, heir.model_id, "--json").stdout)
    assert {line["model"] for line in lines} == set(look.record(heir.model_id).owner_map.owners)
    assert all(line["ended"].endswith("Z") for line in lines)
    table = typed("blame", run.folder, heir.model_id).stdout.splitlines()
    assert len(table) == 1 + len(lines)
    assert len({line.index(word) for line, word in zip(table[1:], (x["model"] for x in lines), strict=True)}) == 1

    best = run.result.best(1)[0].model_id
    found = json.loads(typed("diff", run.folder, best, heir.model_id, "--json").stdout)
    assert [model["model"] for model in found["models"]] == [best, heir.model_id]
    assert found["common_ancestor"] == look.common_ancestor(best, heir.model_id)
    shared = typed("diff", run.folder, heir.model_id, heir.model_id)
    assert "shared: 6 tensors" in shared.stdout
    assert "trained apart" not in shared.stdout

    everybody = json.loads(typed("lineage", run.folder, "--all", "--scope", "tiny", "--json").stdout)
    assert {member["model"] for member in everybody} >= {summary.model_id for summary in look.models("tiny")}
    text = typed("lineage", run.folder, "--all", "--dot").stdout
    assert f'"{heir.ancestor}" -> "{heir.model_id}"' in text
    assert typed("lineage", run.folder, heir.model_id, "--dot").stdout.startswith("digraph lineage {")
    assert typed("lineage", run.folder, "--all").stdout.splitlines()[0].split()[:3] == ["MODEL", "SCOPE", "QUALITY"]
    assert typed("lineage", run.folder).exit_code == 2


def test_where_safetensors_is_missing_no_folder_is_made(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    done = typed("export", run.folder, "--best", 2, "--format", ".safetensors", tmp_path / "winners")
    assert done.exit_code == 2
    assert "pip install safetensors" in done.output
    assert not (tmp_path / "winners").exists()
