"""Keep the serialised configurations of layers: those of a search are the same few, over and over.

Serialising a layer is most of flattening a small model. A layer of Keras' own whose ``get_config()`` is the same as one
before but for its name has the same record; all of it is compared, kinds of values included. Nothing is kept that
depends on anything else: layers and functions that somebody registered, vocabularies, maps of policies.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from daskevo.models.keras_private import is_registered, public_name
from daskevo.types import JSON

_MOST = 1024
"""Configurations kept; each is about a kilobyte."""

Key = tuple[type, str, str]

_known: dict[Key, dict[str, JSON]] = {}
_lock = threading.Lock()


def recorded(operation: Any, work_out: Callable[[], dict[str, JSON]]) -> dict[str, JSON]:
    """Return what `work_out` returns: the record of an operation's configuration, or of an equal one's, renamed.

    Parameters
    ----------
    operation:
        A leaf layer or operation whose record depends on nothing but its class and its ``get_config()``, if the class
        is one of Keras'.
    work_out:
        Serialises it anew.
    """
    name, key = _key(operation)
    if key is None:
        return work_out()
    known = _known.get(key)
    if known is None:
        found = work_out()
        # Asked again: its configuration may have changed while it was serialised, by itself or in another thread.
        if _key(operation) == (name, key) and depends_on_nothing_else(found):
            with _lock:
                if len(_known) >= _MOST:
                    del _known[next(iter(_known))]
                _known[key] = found
        return found
    return {**known, "config": {**known["config"], "name": name}}


def _key(operation: Any) -> tuple[JSON, Key | None]:
    kind = type(operation)
    if public_name(kind) is None or is_registered(kind) or "get_config" in vars(operation):
        return None, None
    try:
        config = dict(operation.get_config())
        name = config.pop("name")
        # JSON says all values, and refuses what has none; repr tells apart what it writes alike: keys 1 and "1".
        return name, (kind, json.dumps(config), repr(config))
    except Exception:  # noqa: BLE001 - whoever serialises it says what is wrong
        return None, None


def depends_on_nothing_else(value: JSON) -> bool:
    """Whether a record names no function and nothing registered: what such names stand for may change."""
    if isinstance(value, list):
        return all(map(depends_on_nothing_else, value))
    if not isinstance(value, dict):
        return True
    if value.get("class_name") in ("function", "__lambda__") or value.get("registered_name") is not None:
        return False
    return all(map(depends_on_nothing_else, value.values()))
