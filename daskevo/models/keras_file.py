"""Load a `.keras` file as an uncompiled model; check the configuration of files from untrusted sources first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras


def load_keras_file(path: Path, custom_objects: Mapping[str, Any]) -> keras.Model:
    """Return the model of a file as Keras makes it in its safe mode; raises what Keras raises."""
    return keras.saving.load_model(path, custom_objects=dict(custom_objects), compile=False, safe_mode=True)
