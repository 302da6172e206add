"""What is not Keras' own in a layer compares by its code: classes and functions that users wrote or registered.

A name says nothing of what stands behind it, so the signature of such a layer holds a digest of each class and function
(see :mod:`daskevo.code_identity`), worked out when it is first met. What can't be compared, because something in it
can't be looked into, equals itself in this process and nothing anywhere else.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import keras

from daskevo.code_identity import made_of
from daskevo.models.keras_private import is_registered, with_sublayers
from daskevo.types import JSON

logger = logging.getLogger(__name__)

_known: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_lock = threading.Lock()


def is_keras_own(kind: type) -> bool:
    """Whether a class is one of Keras', whose arguments have the meanings that Keras gives them."""
    return kind.__module__.partition(".")[0] == "keras" and not is_registered(kind)


def code_of(operation: Any, config: JSON) -> list[str]:
    """Return digests of the classes and functions of a layer that aren't Keras' own, in no order that names give.

    Parameters
    ----------
    operation:
        The leaf layer or operation.
    config:
        Of its configuration, what counts: what is registered under a name that stands in it counts too.
    """
    kinds = {id(kind): kind for kind in map(type, with_sublayers(operation)) if not is_keras_own(kind)}
    for text in _texts(config):
        found = keras.saving.get_registered_object(text)
        if found is not None:
            kinds[id(found)] = found
    return sorted(map(_digest, kinds.values()))


def _digest(part: Any) -> str:
    digest = _known.get(part)
    if digest is None:
        made = made_of(part)
        digest = made.digest
        if made.unknown:
            digest = f"only here {uuid.uuid4().hex}"
            logger.warning(
                "%s can't be compared by its code (%s): layers that use it inherit in this process alone",
                getattr(part, "__qualname__", part),
                "; ".join(made.unknown[:3]),
            )
        with _lock:
            digest = _known.setdefault(part, digest)
    return digest


def _texts(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
