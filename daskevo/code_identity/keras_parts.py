"""What Keras' objects are made of: their configuration and weights, without names that Keras numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from daskevo.code_identity.installed import is_installed

BOOKS_OF_KERAS = frozenset({"name", "own_name", "path", "_path", "_parent_path", "_inbound_nodes", "_outbound_nodes"})
"""Attributes of layers, metrics and the like that depend on what else a process has made, and where they were used."""

_LINKS = frozenset({"input_layers", "output_layers", "inbound_nodes"})
"""Where a configuration says what a tensor comes from: ``[name of the layer, call, output]``."""


def is_keras(kind: type) -> bool:
    return any(base.__module__.partition(".")[0] == "keras" for base in kind.__mro__)


def config_of(value: Any) -> Any:
    """Return the configuration, and weights, of what is as Keras' objects are; None if it has none."""
    if not is_installed(type(value).__module__) or not callable(getattr(value, "get_config", None)):
        return None
    try:
        # Weights, and what text layers have learnt, are in no configuration.
        learnt = [getattr(value, name)() for name in ("get_weights", "get_vocabulary") if hasattr(value, name)]
        return with_names_numbered(value.get_config(), type(value).__name__), learnt
    except Exception:  # noqa: BLE001 - somebody else's; then its attributes are looked at
        return None


def with_names_numbered(config: Any, kind: str = "") -> Any:
    """Return a configuration of Keras' with numbers for names of layers, which depend on what else a process has made.

    Parameters
    ----------
    config:
        What `get_config` returns, with what is nested in it.
    kind:
        Name of its class. Of dtype policies the name is what they are, so it stays.
    """
    names: dict[str, str] = {}

    def objects(part: Any, named: bool) -> Iterator[Mapping[str, Any]]:
        """Yield the mappings whose `name` is one of a layer or the like."""
        if isinstance(part, Mapping):
            of_class = part.get("class_name")
            own = isinstance(of_class, str) and not _is_dtype_policy(of_class)
            if named or own:
                yield part
            for key, inside in part.items():
                yield from objects(inside, own and key == "config")
        elif isinstance(part, list | tuple):
            for inside in part:
                yield from objects(inside, False)

    def replaced(part: Any, in_links: bool) -> Any:
        if isinstance(part, Mapping):
            found = {key: replaced(inside, in_links or key in _LINKS) for key, inside in part.items()}
            return found if id(part) not in named else {**found, "name": names[part["name"]]}
        if isinstance(part, list | tuple):
            is_link = in_links and len(part) > 2 and isinstance(part[0], str) and type(part[1]) is type(part[2]) is int
            first = [names.get(part[0], part[0])] if is_link else []
            return first + [replaced(inside, in_links) for inside in part[len(first) :]]
        return part

    named = {id(part) for part in objects(config, not _is_dtype_policy(kind)) if _take_name(part, names)}
    return replaced(config, False)


def _is_dtype_policy(kind: str) -> bool:
    return "DTypePolicy" in kind


def _take_name(part: Mapping[str, Any], names: dict[str, str]) -> bool:
    if not isinstance(name := part.get("name"), str):
        return False
    names.setdefault(name, f"name {len(names)}")
    return True
