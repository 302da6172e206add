"""Runs that are named together, each once: a run that counted twice would pass for a second seed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from daskevo.runs.folder import read_info

logger = logging.getLogger(__name__)


def each_once(folders: Sequence[Path]) -> list[Path]:
    """Return the folders but for those whose run, by its id, an earlier one has; each left out is said in the log.

    Such are a folder that is named by two paths or links, and a copy of one. Folders that hold no run stay.

    Raises
    ------
    RunFolderUnusable
        If a run's description can't be read.
    """
    kept: dict[str, Path] = {}
    for place, folder in enumerate(folders):
        info = read_info(folder)
        # A name that no run's id can be: whoever reads the folder next says what is wrong with it.
        name = f"no run, {place}" if info is None else info.id
        if name not in kept:
            kept[name] = folder
            continue
        first = kept[name]
        what = "a copy of the run in" if not folder.samefile(first) else "the same folder as" if folder != first else ""
        logger.warning("%s is %s: this run counts once", folder, f"{what} {first}" if what else "named twice")
    return list(kept.values())
