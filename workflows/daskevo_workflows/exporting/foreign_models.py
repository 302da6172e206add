"""Load Keras models from files of others, checking them before Keras creates any object."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daskevo.errors import CannotRebuild, InvalidInput
from daskevo.types import JSON
from daskevo_workflows.evaluation.quiet_import import import_keras
from daskevo_workflows.exporting.safetensors_files import load_safetensors

if TYPE_CHECKING:
    import keras

MAX_CONFIG_BYTES = 64 << 20
"""Maximum size of a model's configuration."""
MOST_TIMES, SPARE_BYTES = 20, 64 << 20
"""Maximum ratio of unpacked to packed size, and size below which it is not checked: Keras does not compress."""


def load_model_file(path: str | Path, *, custom_objects: Mapping[str, Any] | None = None) -> keras.Model:
    """Load a `.keras` file, or a `.safetensors` file written by daskevo, as an uncompiled Keras model.

    No code in it is run: layers must be Keras' own, registered, or in `custom_objects`; a lambda, or a layer that loads
    files or imports modules, is refused.
    Raises
    ------
    InvalidInput
        If it is not such a file, or can't be read.
    CannotRebuild
        If it has layers that are not allowed here.
    CorruptRecord
        If a `.safetensors` file is truncated.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{path} is no file: name one that ends in .keras or .safetensors", path=str(path))
    import_keras()
    if path.name.endswith(".safetensors"):
        return load_safetensors(path, custom_objects=custom_objects)
    if path.suffix in (".h5", ".hdf5"):
        weights = path.name.endswith(".weights.h5")
        raise InvalidInput(
            f"{path} "
            + (
                "has weights alone, and not the model that they belong to: build it, then model.load_weights(...) and "
                "repository.add(model)"
                if weights
                else "is of Keras' older format, which can run code when it is loaded: load it where you trust it, and "
                "model.save('model.keras')"
            ),
            path=str(path),
        )
    if path.suffix != ".keras":
        raise InvalidInput(f"{path} is no model's file: name one that ends in .keras or .safetensors", path=str(path))
    custom = dict(custom_objects or {})
    # Before Keras sees the file: loading it would create what its configuration names.
    _vet(_config(path), custom, path)
    from daskevo.models.keras_file import load_keras_file

    try:
        return load_keras_file(path, custom)
    # Keras raises errors of any type for files that are broken or of other versions.
    except Exception as error:
        raise InvalidInput(
            f"{path} can't be loaded by Keras ({type(error).__name__}: {str(error)[:500]}); if it has layers of your "
            "own, register them first: --problem FILE, or custom_objects",
            path=str(path),
        ) from error


def _config(path: Path) -> JSON:
    try:
        with zipfile.ZipFile(path) as archive:
            entry = archive.getinfo("config.json")
            if entry.file_size > MAX_CONFIG_BYTES:
                raise InvalidInput(
                    f"{path} has a configuration of {entry.file_size:,} bytes: no model's", path=str(path)
                )
            unpacked = sum(one.file_size for one in archive.infolist())
            if unpacked > MOST_TIMES * path.stat().st_size + SPARE_BYTES:
                raise InvalidInput(
                    f"{path} has {path.stat().st_size:,} bytes and unpacks to {unpacked:,}: no model's file",
                    path=str(path),
                )
            return json.loads(archive.read(entry).decode())
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror or error}", path=str(path)) from error
    # NotImplementedError: a compression that Python lacks. RuntimeError: an encrypted entry.
    except (zipfile.BadZipFile, KeyError, ValueError, RecursionError, NotImplementedError, RuntimeError) as error:
        # Raised above: it is a ValueError, too.
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"{path} is no .keras file that Keras 3 wrote ({type(error).__name__}: {error})", path=str(path)
        ) from error


def _vet(config: JSON, custom: Mapping[str, Any], path: Path) -> None:
    """Check that every class and function in a configuration may be created from a record."""
    from daskevo.models.config_vetting import vet

    try:
        vet(_without_builds(config), custom, "model")
    except CannotRebuild as error:
        raise CannotRebuild(f"{path} is not loaded: {error.message}", path=str(path)) from error


def _without_builds(value: JSON) -> JSON:
    """Return a configuration without its build and compile parts: shapes, and settings that are not loaded."""
    if isinstance(value, dict):
        return {
            key: _without_builds(item) for key, item in value.items() if key not in ("build_config", "compile_config")
        }
    return [_without_builds(item) for item in value] if isinstance(value, list) else value
