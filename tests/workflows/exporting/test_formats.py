"""Files of all formats give the model back bit for bit: by Keras and safetensors alone, and by `load_safetensors`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import CannotRebuild, CorruptRecord, InvalidInput
from daskevo.models import flatten, read_tensors, rebuild_flat
from daskevo_workflows.exporting import FORMATS, load_safetensors
from daskevo_workflows.exporting.formats import companions, format_of, how_to_load
from daskevo_workflows.exporting.model_files import write_model
from daskevo_workflows.exporting.safetensors_files import read_header, tensor_names
from tests.models.zoo import ZOO, batch

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, under numpy 2


def written(name: str, kind: str, folder: Path) -> tuple[Path, Any]:
    """Write a model of the zoo as an export does; return its file and the model."""
    flat = flatten(ZOO[name]())
    model = rebuild_flat(flat.graph, tensors=dict(enumerate(read_tensors(flat)))).model
    path = folder / f"model{kind}"
    write_model(model, flat.graph, kind, [path, companions(path)[0]])
    return path, model


def outputs(model: Any, x: Any) -> list[tuple[str, bytes]]:
    import keras

    found = [keras.ops.convert_to_numpy(one) for one in keras.tree.flatten(model(x))]
    return [(str(array.dtype), np.asarray(array).tobytes()) for array in found]


def loaded(path: Path, kinds: tuple[str, ...] = ()) -> Any:
    """Return what the lines of a card load."""
    names: dict[str, Any] = {}
    exec(how_to_load(path, kinds).replace(f'"{path.name}', f'"{path.parent}/{path.name}'), names)
    return names["model"]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "name", ["spectral_normalization", "shared_in_a_chain", "mixed_precision", "low_rank", "preprocessing", "custom"]
)
def test_what_is_written_is_read(name: str, kind: str, tmp_path: Path) -> None:
    if kind == ".safetensors":
        pytest.importorskip("safetensors", reason="safetensors isn't installed: pip install safetensors")
    path, model = written(name, kind, tmp_path)
    x = batch(model)
    wanted = outputs(model, x)
    assert outputs(loaded(path, ("Normalization",)), x) == wanted
    if kind == ".safetensors":
        assert outputs(load_safetensors(path), x) == wanted


@pytest.fixture
def path(tmp_path: Path) -> Path:
    pytest.importorskip("safetensors", reason="safetensors isn't installed: pip install safetensors")
    return written("mixed_precision", ".safetensors", tmp_path)[0]


def test_tensors_are_named_by_the_paths_of_their_layers(path: Path) -> None:
    header, _, size = read_header(path)
    about = header.pop("__metadata__")
    assert {name.rpartition("/")[2] for name in header} == {"kernel", "bias"}
    assert {entry["dtype"] for entry in header.values()} == {"F32", "BF16"}
    assert sorted(json.loads(about["keras_weights"])) == sorted(json.loads(about["daskevo_tensors"])) == sorted(header)
    assert max(entry["data_offsets"][1] for entry in header.values()) == size


def forged(path: Path, change: Any) -> Path:
    """Write the file anew with another header."""
    header, start, _ = read_header(path)
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + path.read_bytes()[start:])
    return path


def lengthen(header: dict[str, Any]) -> None:
    next(entry for name, entry in header.items() if name != "__metadata__")["data_offsets"][1] += 4


def misname(header: dict[str, Any]) -> None:
    header["__metadata__"]["daskevo_tensors"] = '["a"]'


def widen(header: dict[str, Any]) -> None:
    for name, entry in header.items():
        if name != "__metadata__":
            entry["shape"] = [1, *entry["shape"]]


@pytest.mark.parametrize("change", [lengthen, misname, widen], ids=lambda change: change.__name__)
def test_a_file_that_does_not_fit_its_architecture_is_refused(change: Any, path: Path) -> None:
    with pytest.raises(CorruptRecord, match=r"is no \.safetensors file of a model"):
        load_safetensors(forged(path, change))


def test_a_cut_file_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptRecord, match="a tensor of"):
        load_safetensors(path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(CorruptRecord, match="its header would have"):
        load_safetensors(path)


def test_code_in_an_architecture_is_not_run(path: Path) -> None:
    def change(header: dict[str, Any]) -> None:
        about = header["__metadata__"]
        about["daskevo_graph"] = about["daskevo_graph"].replace('"class_name":"Dense"', '"class_name":"Lambda"')

    with pytest.raises(CannotRebuild, match="Lambda, which runs code"):
        load_safetensors(forged(path, change))


def test_a_file_of_somebody_else_is_said(path: Path) -> None:
    with pytest.raises(InvalidInput, match="written by something else"):
        load_safetensors(forged(path, lambda header: header.pop("__metadata__")))
    with pytest.raises(InvalidInput, match="can't be read"):
        load_safetensors(path.with_name("nowhere.safetensors"))


def test_equal_paths_get_numbers() -> None:
    assert tensor_names(["a", "a", "a_1", "a"]) == ["a", "a_2", "a_1", "a_3"]


@pytest.mark.parametrize(
    ("name", "hint"), [("m.h5", "older .h5 is not written"), ("m.pt", "doesn't say a format"), (".keras", "a format")]
)
def test_a_name_without_a_format_is_said(name: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=hint):
        format_of(Path(name))
