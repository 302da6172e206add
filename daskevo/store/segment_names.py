"""Names of segment files, distinct also on case-insensitive file systems (docs/formats.md)."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from daskevo.errors import CorruptRecord, InvalidName
from daskevo.store.files import usable
from daskevo.types import Attempt, ModelId, Tick, check_name

_SEGMENT = re.compile(r"(.+)\.(\d{1,19})-(\d{1,19})\.seg(\.[0-9a-f]{8}\.tmp)?", re.ASCII)


def segment_name(model_id: ModelId, attempt: Attempt) -> str:
    """Return the file name of a model's attempt, distinct for distinct ids also on case-insensitive file systems.

    Capitals are written in lower case, and a hexadecimal bitmap of their places is appended.

    Examples
    --------
    >>> segment_name("attn-00042", Tick(3, 17))
    'attn-00042.3-17.seg'
    >>> segment_name("Attn-00042", Tick(3, 17))
    'attn-00042~1.3-17.seg'
    """
    check_name(model_id)
    capitals = sum(1 << place for place, letter in enumerate(model_id) if letter.isupper())
    mark = f"~{capitals:x}" if capitals else ""
    return f"{model_id.lower()}{mark}.{attempt.generation}-{attempt.counter}.seg"


def parse_segment_name(name: str) -> tuple[ModelId, Attempt, bool] | None:
    """Return model id, attempt and whether the file is temporary; None if the name is not one of `segment_name`.

    Examples
    --------
    >>> parse_segment_name("attn-00042~1.3-17.seg")
    ('Attn-00042', Tick(generation=3, counter=17), False)
    """
    match = _SEGMENT.fullmatch(name)
    if match is None:
        return None
    small, _, mark = match[1].partition("~")
    if mark and not re.fullmatch(r"[1-9a-f][0-9a-f]{0,24}", mark):
        return None
    capitals = int(mark or "0", 16)
    model_id = ModelId("".join(c.upper() if capitals >> place & 1 else c for place, c in enumerate(small)))
    with contextlib.suppress(CorruptRecord, InvalidName):
        attempt = Tick.parse([int(match[2]), int(match[3])])
        if segment_name(model_id, attempt) == name.removesuffix(match[4] or ""):
            return model_id, attempt, match[4] is not None
    return None


def segment_files(folder: Path) -> Iterator[tuple[ModelId, Attempt, Path, bool]]:
    """Yield model id, attempt, path and whether it is temporary for each file that has a segment's name.

    Raises
    ------
    RootUnusable
        If the folder can't be listed. A missing folder in an existing root has no files.
    """
    with usable(folder, "list segments"):
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            os.stat(folder.parent.parent)
            return
    for name in names:
        if (parsed := parse_segment_name(name)) is not None:
            model_id, attempt, temporary = parsed
            yield model_id, attempt, folder / name, temporary
