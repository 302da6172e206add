"""Models as `.safetensors` files: tensors named by layer paths, and the architecture in the metadata.

The architecture is stored in two forms: ``keras_config``, for ``keras.models.model_from_json``, with ``keras_weights``,
the tensor names in the order of ``model.weights``; and ``daskevo_graph`` with ``daskevo_tensors``, the name of each
tensor by number, for `load_safetensors`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daskevo.errors import CannotRebuild, CorruptRecord, InvalidInput
from daskevo.graph import ArchitectureGraph
from daskevo.types import TensorSpec, dtype_of

if TYPE_CHECKING:
    import keras

INSTALL = "safetensors isn't installed here: pip install safetensors"

_TYPES: Mapping[str, str] = {
    **{f"{sign}int{bits}": f"{letter}{bits}" for sign, letter in (("", "I"), ("u", "U")) for bits in (8, 16, 32, 64)},
    "bool": "BOOL",
    "bfloat16": "BF16",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
}
"""Dtypes -> their names in a file's header."""


def check_installed() -> None:
    """Raise InvalidInput, with advice, if the package is not installed."""
    try:
        import safetensors  # noqa: F401
    except ImportError as error:
        raise InvalidInput(f"{INSTALL}; or export to .keras or .weights.h5, which need no further package") from error


def tensor_names(paths: Sequence[str]) -> list[str]:
    """Return a unique name for each tensor: the path of its variable, with a number for repeated ones.

    Examples
    --------
    >>> tensor_names(["dense/kernel", "dense/bias", "dense/kernel"])
    ['dense/kernel', 'dense/bias', 'dense/kernel_1']
    """
    names: list[str] = []
    # All paths: a name made with a number must not be that of a variable which comes later.
    taken = set(paths)
    for place, path in enumerate(paths):
        name, number = path, 1
        while path in paths[:place] and name in taken:
            name, number = f"{path}_{number}", number + 1
        taken.add(name)
        names.append(name)
    return names


def metadata_of(
    keras_config: str, keras_weights: Sequence[str], graph: ArchitectureGraph, names: Sequence[str]
) -> dict[str, str]:
    """Return the metadata of a file's header, all values as text, as the format requires."""
    return {
        "format": "keras",
        "keras_config": keras_config,
        "keras_weights": json.dumps(list(keras_weights)),
        "daskevo_graph": graph.text,
        "daskevo_tensors": json.dumps(list(names)),
    }


def write_safetensors(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str]) -> None:
    """Write tensors by name.

    Raises
    ------
    InvalidInput
        If the format has no type for a tensor, or the package is not installed.
    OSError
        If it can't be written.
    """
    check_installed()
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    for name, array in arrays.items():
        if array.dtype.name not in _TYPES:
            raise InvalidInput(
                f"{name} is of dtype {array.dtype.name}, which the safetensors format doesn't have: export to .keras",
                name=name,
            )
    try:
        save_file(dict(arrays), path, dict(metadata))
    except SafetensorError as error:
        # The package raises an error of its own, with the system's number in its text alone.
        number = re.search(r"os error (\d+)", str(error))
        raise OSError(*([int(number[1])] if number else []), str(error)) from error


def load_safetensors(path: str | Path, *, custom_objects: Mapping[str, Any] | None = None) -> keras.Model:
    """Load an exported `.safetensors` file as an uncompiled model with its weights.

    No code in the file is run or imported: its architecture is read like a record of a repository. The package
    safetensors is not needed.

    Parameters
    ----------
    path:
        The file, from any source.
    custom_objects:
        Name -> class or function, for layers that aren't registered.

    Raises
    ------
    CorruptRecord
        If it is not such a file, or truncated.
    CannotRebuild
        If its layers are not available here.
    """
    from daskevo.models import rebuild_flat

    path = Path(path)
    header, start, size = read_header(path)
    graph, names = _architecture(path, header)
    arrays: dict[int, np.ndarray[Any, Any]] = {}
    with open(path, "rb") as file:
        for number, (name, key) in enumerate(zip(names, graph.tensors, strict=True)):
            begin = _place(path, header.get(name), key.spec, size)
            file.seek(start + begin)
            values = np.frombuffer(file.read(key.spec.nbytes), dtype_of(key.spec.dtype))
            arrays[number] = values.reshape(key.spec.shape)
    try:
        return rebuild_flat(graph, custom_objects=custom_objects, tensors=arrays, stored_as=str(path)).model
    except CannotRebuild as error:
        raise CannotRebuild(f"{path} holds a model that can't be made here: {error.message}", path=str(path)) from error


def read_header(path: Path) -> tuple[dict[str, Any], int, int]:
    """Return a file's header, the offset of its tensors and their number of bytes.

    Raises
    ------
    CorruptRecord, InvalidInput
        If it is not such a file; if it can't be opened.
    """
    try:
        with open(path, "rb") as file:
            # The length stands in the file: a damaged one may ask for exabytes.
            length = int.from_bytes(file.read(8), "little")
            size = path.stat().st_size - 8 - length
            if size < 0 or length > MAX_HEADER_BYTES:
                raise _no_file(path, f"its header would have {length} bytes")
            header = json.loads(file.read(length).decode())
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror or error}", path=str(path)) from error
    # RecursionError: JSON that is nested thousands deep.
    except (ValueError, RecursionError) as error:
        raise _no_file(path, f"its header is no JSON ({type(error).__name__})") from error
    if not isinstance(header, dict):
        raise _no_file(path, "its header is no JSON object")
    return header, 8 + length, size


MAX_HEADER_BYTES = 100_000_000
"""Maximum size of a header in the format."""


def _architecture(path: Path, header: Mapping[str, Any]) -> tuple[ArchitectureGraph, list[str]]:
    match header.get("__metadata__"):
        case {"daskevo_graph": str(text), "daskevo_tensors": str(names)}:
            try:
                graph, found = ArchitectureGraph.of_text(text), json.loads(names)
            except (ValueError, RecursionError) as error:
                raise _no_file(path, f"the names of its tensors are no JSON ({type(error).__name__})") from error
            if isinstance(found, list) and len(found) == len(graph.tensors) and all(type(n) is str for n in found):
                return graph, found
            raise _no_file(path, f"it names other tensors than the {len(graph.tensors)} of its architecture")
    raise InvalidInput(
        f"{path} has no architecture of daskevo's in its metadata: it was written by something else. Build the model, "
        "and give it the tensors of the file",
        path=str(path),
    )


def _place(path: Path, entry: Any, spec: TensorSpec, size: int) -> int:
    """Return the offset of a tensor's bytes, relative to the first tensor."""
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(begin), int(end)]}:
            # Offsets stand in the file, too: each must be within it, and exactly as long as its tensor.
            fits = (dtype, shape) == (_TYPES.get(spec.dtype), list(spec.shape))
            if fits and 0 <= begin <= end <= size and end - begin == spec.nbytes:
                return begin
    raise _no_file(path, f"a tensor of {spec.dtype} {list(spec.shape)} has the entry {entry!r:.100}")


def _no_file(path: Path, found: str) -> CorruptRecord:
    return CorruptRecord(f"{path} is no .safetensors file of a model: {found}; export the model again", path=str(path))
