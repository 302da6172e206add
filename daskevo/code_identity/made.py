"""The result of a walk through code and values: digest, parts, what is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Made:
    """What something is made of.

    Parameters
    ----------
    digest:
        32 hexadecimal digits: equal for what is made of the same. If something is unknown, it covers the rest.
    parts:
        Name -> short digest, of each function, class, global and object that was met: for people, who are told which
        changed.
    unknown:
        What couldn't be looked into, in words.
    modules:
        Modules of the user's whose code or values were met, by name.
    files:
        Where code of the user's was compiled from: files, or what a notebook calls its cells.
    """

    digest: str
    parts: Mapping[str, str]
    unknown: tuple[str, ...]
    modules: tuple[str, ...]
    files: tuple[str, ...]
