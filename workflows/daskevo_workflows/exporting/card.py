"""Model cards: what a trained model is, where it comes from, and how to load it.

A card is one Markdown file for people, and its last block contains the same facts as JSON for programs. In a single
file the two can neither be separated nor come to disagree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.types import JSON

FORMAT = "daskevo model card"
VERSION = 1
_FENCE = "```json\n"
MAX_BYTES = 64 << 20
"""Maximum size of a card's file."""


@dataclass(frozen=True)
class Card:
    """A model card.

    Parameters
    ----------
    facts:
        JSON; its keys are described in docs/models.md.
    """

    facts: Mapping[str, JSON]

    def __str__(self) -> str:
        from daskevo_workflows.exporting.page import page_of

        return f"{page_of(self.facts)}\n## For programs\n\n{_FENCE}{self.json()}\n```\n"

    def json(self) -> str:
        """Return the facts as JSON for the page, escaped so that no text ends the block or is taken for HTML."""
        facts = {"format": FORMAT, "version": VERSION, **self.facts}
        lines = [f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in facts.items()]
        text = "{\n" + ",\n".join(lines) + "\n}"
        return text.replace("<", "\\u003c").replace("`", "\\u0060")


def read_card(path: str | Path) -> dict[str, Any]:
    """Return the facts in a card's file, or in the card next to an exported model.

    Raises
    ------
    InvalidInput
        If it can't be read.
    CorruptRecord
        If it is not a card.
    """
    path = Path(path)
    if not path.name.endswith(".md"):
        path = path.with_name(f"{path.name}.card.md")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CorruptRecord(f"{path} is too large for a model card", path=str(path))
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the model card {path} can't be read: {error}", path=str(path)) from error
    try:
        # The last block: a card has others before it, such as the code that loads the model.
        facts = json.loads(text.rpartition(_FENCE)[2].rpartition("\n```")[0])
        if facts["format"] == FORMAT and facts["version"] == VERSION:
            return dict(facts)
        found = f"{facts['format']!r:.60} {facts['version']!r:.20}"
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        found = f"its last block has no facts ({type(error).__name__})"
    raise CorruptRecord(f"{path} is no model card that this daskevo reads: {found}", path=str(path))
