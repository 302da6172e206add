"""Model spaces of the literature, each with its source and its size. A problem returns one from its `space()`."""

from __future__ import annotations
