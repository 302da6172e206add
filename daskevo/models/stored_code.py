"""Whether the code of users' layers is what it was when a model was stored.

Weights are loaded with the code as it is now, so that nobody loses a model by mending a layer. The model may then
compute something else than what was scored, so the user is warned.
"""

from __future__ import annotations

import json
import threading
import warnings
from dataclasses import dataclass

from daskevo.errors import LayerCodeChanged
from daskevo.graph import ArchitectureGraph, Vertex
from daskevo.models.custom_code import CODE_READ_BY, ONLY_HERE, RUNNING_CODE
from daskevo.models.versions import is_of_running_keras
from daskevo.types import JSON

_SHOWN = 5

_said: set[tuple[str, frozenset[str]]] = set()
_lock = threading.Lock()


@dataclass(frozen=True)
class ChangedCode:
    """What differs; falsy if nothing is known to.

    Parameters
    ----------
    layers:
        Names of the layers whose code, or something that it reads, is another than the record says.
    certain:
        Whether the record says that this version of Python made its digests: another one compiles the same code
        differently.
    found:
        Digests of their code as it is here.
    """

    layers: tuple[str, ...] = ()
    certain: bool = True
    found: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.layers)

    def words(self, model: str) -> str:
        """Return what is said of a model, and how to go on."""
        shown = ", ".join(map(repr, self.layers[:_SHOWN]))
        more = f" and {len(self.layers) - _SHOWN} more" if len(self.layers) > _SHOWN else ""
        said = (
            f"{model}: the code of {'layer' if len(self.layers) == 1 else 'layers'} {shown}{more}, or a value that it "
            "reads, is another than when the model was stored, so it may compute something else than what was scored. "
            "Its weights are as they were stored: put the code back as it was, or take the model as it is now"
        )
        if self.certain:
            return said
        return f"{said}. (Its record doesn't say by which versions of Python and Keras: others may be the reason)"


def changed_code(recorded: ArchitectureGraph, here: ArchitectureGraph) -> ChangedCode:
    """Return the layers of a model that was made of a record whose code is another than the record says.

    Of records without digests, or with those of another version of Python, nothing is known, nor of code that can't be
    compared.

    Parameters
    ----------
    recorded, here:
        The record, and the model that was made of it, flattened: their vertices belong together by position.
    """
    read_by = _read_by(recorded)
    # Every version of Python compiles the same code differently, so digests of another one say nothing.
    if read_by not in (None, RUNNING_CODE):
        return ChangedCode()
    layers: dict[str, None] = {}
    found: set[str] = set()
    for mine, theirs in zip(recorded.vertices, here.vertices, strict=True):
        if mine.signature == theirs.signature:
            continue
        now = _digests(theirs)
        if any(one not in now and not one.startswith(ONLY_HERE) for one in _digests(mine)):
            layers[recorded.layers[mine.layer].name] = None
            found.update(now)
    return ChangedCode(tuple(layers), read_by is not None and is_of_running_keras(recorded), frozenset(found))


def warn_once(changed: ChangedCode, model: str) -> None:
    """Warn of a model's changed code, once for each state of the code."""
    if not changed or (key := (model, changed.found)) in _said:
        return
    warnings.warn(changed.words(model), LayerCodeChanged, stacklevel=3)
    with _lock:
        _said.add(key)


def has_own_code(graph: ArchitectureGraph) -> bool:
    """Whether a graph has layers of code that isn't Keras' own."""
    return any(map(_digests, graph.vertices))


def _read_by(graph: ArchitectureGraph) -> JSON:
    return graph.structure.get(CODE_READ_BY) if isinstance(graph.structure, dict) else None


def _digests(vertex: Vertex) -> list[str]:
    if '"code":' not in vertex.signature:
        return []
    try:
        return [str(one) for one in json.loads(vertex.signature)["layer"].get("code", ())]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return []  # not one that daskevo wrote
