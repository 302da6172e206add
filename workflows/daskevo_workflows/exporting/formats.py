"""Formats of exported models, by file suffix, and code that loads each without daskevo."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from daskevo.errors import InvalidInput

FORMATS = (".keras", ".weights.h5", ".safetensors")
"""Suffixes of the formats."""

CARD = ".card.md"
"""Suffix added to a file's name for its card."""

CONFIG = ".config.json"
"""Suffix added to the name of a weights file for the architecture."""

_LOAD = {
    ".keras": """\
import keras

model = keras.saving.load_model({path})
""",
    ".weights.h5": """\
import keras

with open({config}) as file:
    model = keras.models.model_from_json(file.read())
model.load_weights({path})
""",
    ".safetensors": """\
import json

import keras
from safetensors import safe_open

with safe_open({path}, framework="numpy") as file:
    about = file.metadata()
    model = keras.models.model_from_json(about["keras_config"])
    model.set_weights([file.get_tensor(name) for name in json.loads(about["keras_weights"])])
""",
}


def format_of(path: Path) -> str:
    """Return the format for a file's suffix.

    Raises
    ------
    InvalidInput
        If the suffix is not known.

    Examples
    --------
    >>> format_of(Path("best.weights.h5"))
    '.weights.h5'
    """
    for suffix in FORMATS:
        # `.keras` alone is a hidden file without a name, not a file of that format.
        if path.name.endswith(suffix) and path.name != suffix:
            return suffix
    legacy = path.suffix in (".h5", ".hdf5")
    hint = ". Keras' older .h5 is not written: .weights.h5 has weights alone, .keras the whole model" if legacy else ""
    raise InvalidInput(f"{path} doesn't say a format: let its name end in {', '.join(FORMATS)}{hint}", path=str(path))


def companions(path: Path) -> tuple[Path, ...]:
    """Return the files written next to an exported one, its card last."""
    card = path.with_name(path.name + CARD)
    return (path.with_name(path.name + CONFIG), card) if format_of(path) == ".weights.h5" else (card,)


_FINALIZE = """\
for layer in model.layers:
    if hasattr(layer, "finalize_state"):
        layer.finalize_state()
"""
"""Code that Normalization layers need after their weights are set; for its own files Keras does it."""


def how_to_load(path: Path, kinds: Collection[str] = ()) -> str:
    """Return Python code that loads an exported file without daskevo.

    Parameters
    ----------
    kinds:
        Class names of the model's layers.

    Examples
    --------
    >>> print(how_to_load(Path("runs/best.keras")), end="")
    import keras
    <BLANKLINE>
    model = keras.saving.load_model("best.keras")
    """
    kind = format_of(path)
    # Names without folders: the code stands on the card, which lies beside the file.
    lines = _LOAD[kind].format(path=_quoted(path.name), config=_quoted(path.name + CONFIG))
    return lines + _FINALIZE if kind == ".safetensors" and "Normalization" in kinds else lines


def _quoted(name: str) -> str:
    # The name becomes part of Python code: quotes and control characters are escaped.
    text = ascii(name)
    return text if '"' in text or "\\" in text else f'"{text[1:-1]}"'
