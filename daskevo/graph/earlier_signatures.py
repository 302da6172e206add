"""Signatures as earlier versions of daskevo wrote them, in the form that this one writes: their models still match.

Arguments that Keras added after its version 3.13, at their defaults, were part of a signature once and are not now.
"""

from __future__ import annotations

import json
from typing import Any

from daskevo.types import json_objects

LATER: dict[str, dict[str, Any]] = {
    "BatchNormalization": {"renorm": False, "renorm_clipping": None, "renorm_momentum": 0.99},
    "MultiHeadAttention": {"sliding_window": None, "use_gate": False},
    "GroupQueryAttention": {"sliding_window": None, "use_gate": False},
    "IntegerLookup": {"oov_method": "floormod", "salt": None},
    "StringLookup": {"oov_method": "floormod", "salt": None},
}
"""Layer of Keras -> its arguments of later versions, with their defaults."""
_MARKS = ('"renorm":false', '"use_gate":false', '"oov_method":"floormod"')


def as_written_now(signature: Any) -> Any:
    """Return a signature in today's form; anything else as it is.

    Examples
    --------
    >>> as_written_now('{"layer":{"class":"keras.layers.MultiHeadAttention","config":{"heads":2,"use_gate":false}}}')
    '{"layer":{"class":"keras.layers.MultiHeadAttention","config":{"heads":2}}}'
    """
    # Each layer with such arguments has one of the marks, so that all other signatures needn't be parsed.
    if type(signature) is not str or not any(mark in signature for mark in _MARKS):
        return signature
    try:
        value = json.loads(signature)
    except (ValueError, RecursionError):
        return signature
    for part in json_objects(value):
        config = part.get("config")
        name = str(part.get("class") or part.get("class_name")).removeprefix("keras.layers.")
        if isinstance(config, dict) and part.get("module", "keras.layers") == "keras.layers":
            for argument, default in LATER.get(name, {}).items():
                # Types are compared too: 0 equals False.
                if argument in config and type(config[argument]) is type(default) and config[argument] == default:
                    del config[argument]
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
