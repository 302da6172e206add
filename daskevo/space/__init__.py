"""Model spaces: choices, candidates, and how candidates are drawn and mutated."""

from __future__ import annotations

from daskevo.space.choices import Candidate, Choice, Space

__all__ = ["Candidate", "Choice", "Space"]
