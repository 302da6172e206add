"""What a run of these tests is about: its identity, as a search would write it."""

from __future__ import annotations

from typing import Any

IDENTITY: dict[str, Any] = {
    "problem": {"name": "digits", "content": "abc"},
    "space": {"name": "s", "choices": []},
    "objective": "max q",
    "seed": 0,
    "strategy": {"name": "random", "settings": {"keep": 5}},
    "policy": {"transfer": True, "freeze": "prefix"},
}
