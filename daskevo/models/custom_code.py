"""What is not Keras' own in a layer compares by its code: classes and functions that users wrote or registered.

A name says nothing of what stands behind it, so the signature of such a layer holds a digest of each class and function
(see :mod:`daskevo.code_identity`), worked out anew for each model: a global that the code reads may have been set to
something else meanwhile. Code with a part that can't be inspected equals only itself, in this process, as long as the
rest of it stays the same.
"""

from __future__ import annotations

import logging
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import keras

from daskevo.code_identity import Made, made_of
from daskevo.models.keras_private import is_registered, with_sublayers
from daskevo.types import JSON

logger = logging.getLogger(__name__)

CODE_READ_BY = "code"
"""Where a graph's structure says which Python compiled the code that the digests in its signatures are of."""

RUNNING_CODE = f"{sys.implementation.cache_tag} 2"
"""What this process writes there: each version compiles the same code differently. The number is that of the rules by
which digests are made (:mod:`daskevo.code_identity`)."""

ONLY_HERE = "only here "
"""What the digest of something that can't be compared begins with."""

_last: WeakKeyDictionary[Any, tuple[Made, str]] = WeakKeyDictionary()
_lock = threading.Lock()


def is_keras_own(kind: type) -> bool:
    """Whether a class is one of Keras', whose arguments have the meanings that Keras gives them."""
    return kind.__module__.partition(".")[0] == "keras" and not is_registered(kind)


def code_of(operation: Any, config: JSON, known: dict[int, str] | None = None) -> list[str]:
    """Return digests of the classes and functions of a layer that aren't Keras' own, sorted: names don't matter.

    Parameters
    ----------
    operation:
        The leaf layer or operation.
    config:
        Of its configuration, what counts: what is registered under a name that stands in it counts too.
    known:
        Digests by the ids of classes and functions, of the same moment; what is worked out is added to it.
    """
    known = {} if known is None else known
    kinds = {id(kind): kind for kind in map(type, with_sublayers(operation)) if not is_keras_own(kind)}
    for text in _texts(config):
        found = keras.saving.get_registered_object(text)
        if found is not None:
            kinds[id(found)] = found
    for key, kind in kinds.items():
        if key not in known:
            known[key] = _digest(kind)
    return sorted(known[key] for key in kinds)


def _digest(part: Any) -> str:
    made = made_of(part, settings=True)
    name = getattr(part, "__qualname__", part)
    with _lock:
        before = _last.get(part)
        if before is not None and before[0].digest == made.digest and before[0].unknown == made.unknown:
            return before[1]
        # A random digest: what can't be compared must equal nothing that another process stored.
        digest = f"{ONLY_HERE}{uuid.uuid4().hex}" if made.unknown else made.digest
        _last[part] = made, digest
    if before is not None:
        changed = [one for one in {**before[0].parts, **made.parts} if before[0].parts.get(one) != made.parts.get(one)]
        logger.warning(
            "%s, or something that it reads, is another now than for models made before (%s): its layers share no "
            "weights with theirs",
            name,
            ", ".join(changed[:3]),
        )
    elif made.unknown:
        logger.warning(
            "%s can't be compared by its code (%s): layers that use it inherit in this process alone",
            name,
            "; ".join(made.unknown[:3]),
        )
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
