"""Write a model in each format, to temporary files."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daskevo.graph import ArchitectureGraph
from daskevo.store.files import remove
from daskevo_workflows.exporting.safetensors_files import metadata_of, tensor_names, write_safetensors


def write_model(model: Any, graph: ArchitectureGraph, kind: str, paths: Sequence[Path]) -> None:
    """Write a model's file and, for ``.weights.h5``, its architecture.

    Parameters
    ----------
    model:
        A Keras model rebuilt from `graph`.
    kind:
        One of `FORMATS`.
    paths:
        Path of the file, and of the architecture if the format needs one.

    Raises
    ------
    OSError
        If it can't be written.
    """
    if kind == ".keras":
        model.save(paths[0])
    elif kind == ".weights.h5":
        _save_weights(model, paths[0])
        paths[1].write_text(model.to_json(), encoding="utf-8")
    else:
        from daskevo.models import flatten, read_tensors

        flat = flatten(model)
        variables = flat.variables()
        names = tensor_names([variable.path for variable in variables])
        arrays = dict(zip(names, read_tensors(flat), strict=True))
        # set_weights() takes Keras' order, which is another than that of the graph's tensors.
        by_variable = {id(variable): name for variable, name in zip(variables, names, strict=True)}
        in_order = [by_variable[id(variable)] for variable in model.weights]
        write_safetensors(paths[0], arrays, metadata_of(model.to_json(), in_order, graph, names))


def _save_weights(model: Any, path: Path) -> None:
    """Write the same as ``model.save_weights``, but by way of a whole model's file.

    If the disk is full when HDF5 closes a file, HDF5 ends the process. For a whole model's file Keras creates that part
    in memory.
    """
    whole = path.with_name(f"{path.name}.keras")
    try:
        model.save(whole)
        with zipfile.ZipFile(whole) as archive, archive.open("model.weights.h5") as weights, open(path, "wb") as file:
            shutil.copyfileobj(weights, file, 1 << 20)
    finally:
        remove(whole)
