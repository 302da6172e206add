"""How others keep a model's tensors in files: what `python -m benchmarks.store` measures besides daskevo.

Each writes whole models and reads whole models or some tensors; tensors are numpy arrays by number, as daskevo gets
them. What isn't installed isn't there.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Arrays = Mapping[int, np.ndarray[Any, Any]]


class Rival(NamedTuple):
    """A way to keep tensors.

    Parameters
    ----------
    name:
        As tables show it.
    write:
        Writes tensors into a folder of its own, anew; whether with an fsync.
    read:
        Returns the tensors of these numbers from that folder.
    """

    name: str
    write: Callable[[Path, Arrays, bool], None]
    read: Callable[[Path, Iterable[int]], Arrays]


def sync(path: Path) -> None:
    """Make a file or a folder survive the host."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _raw_write(folder: Path, tensors: Arrays, synced: bool) -> None:
    for number, array in tensors.items():
        handle = os.open(folder / str(number), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            os.write(handle, array.reshape(-1).view(np.uint8).data)
            if synced:
                os.fsync(handle)
        finally:
            os.close(handle)
    if synced:
        sync(folder)


def _raw_read(folder: Path, numbers: Iterable[int]) -> Arrays:
    return {number: np.fromfile(folder / str(number), np.float32) for number in numbers}


def _safetensors_write(folder: Path, tensors: Arrays, synced: bool) -> None:
    from safetensors.numpy import save_file

    save_file({str(number): array for number, array in tensors.items()}, folder / "model.safetensors")
    if synced:
        sync(folder / "model.safetensors")
        sync(folder)


def _safetensors_read(folder: Path, numbers: Iterable[int]) -> Arrays:
    from safetensors import safe_open
    from safetensors.numpy import load_file

    wanted = list(numbers)
    with safe_open(folder / "model.safetensors", framework="np") as file:
        if len(wanted) < len(file.keys()):
            return {number: file.get_tensor(str(number)) for number in wanted}
    return {int(name): array for name, array in load_file(folder / "model.safetensors").items()}


def _h5py_write(folder: Path, tensors: Arrays, synced: bool) -> None:
    import h5py

    with h5py.File(folder / "model.h5", "w") as file:
        for number, array in tensors.items():
            file.create_dataset(str(number), data=array)
    if synced:
        sync(folder / "model.h5")
        sync(folder)


def _h5py_read(folder: Path, numbers: Iterable[int]) -> Arrays:
    import h5py

    with h5py.File(folder / "model.h5", "r") as file:
        return {number: file[str(number)][()] for number in numbers}


def file_rivals() -> list[Rival]:
    """Return the rivals that are installed here; raw files, one per tensor, are the floor."""
    found = [Rival("raw files", _raw_write, _raw_read)]
    if find_spec("safetensors"):
        found.append(Rival("safetensors", _safetensors_write, _safetensors_read))
    if find_spec("h5py"):
        found.append(Rival("h5py", _h5py_write, _h5py_read))
    return found


def memcpy(tensors: Arrays, into: mmap.mmap | np.ndarray[Any, np.dtype[np.uint8]]) -> None:
    """Copy tensors into memory that was written to before: the limit of whatever copies."""
    memory, start = np.frombuffer(into, np.uint8), 0
    for array in tensors.values():
        memory[start : start + array.nbytes] = array.reshape(-1).view(np.uint8)
        start += array.nbytes
