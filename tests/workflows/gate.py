"""What waits until a test lets it go on: a file that says how many may, and who has come so far."""

from __future__ import annotations

import os
from pathlib import Path


class Gate:
    """The folder of a problem's constant `GATE`: its evaluations wait there in the order in which they came."""

    def __init__(self, folder: Path, count: int) -> None:
        folder.mkdir()
        self.folder = folder
        self.let(count)

    def let(self, count: int) -> None:
        """Let so many go on, counted from the first."""
        draft = self.folder.with_name("open.tmp")
        draft.write_text(str(count))
        os.replace(draft, self.folder / "open")

    @property
    def came(self) -> int:
        """How many have come."""
        return len(list(self.folder.iterdir())) - 1
