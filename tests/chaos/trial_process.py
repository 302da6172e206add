"""A trial as a process of its own, in a place apart."""

from __future__ import annotations

from tests.chaos.apart import beside_a_reaper
from tests.chaos.trial import main

if __name__ == "__main__":
    beside_a_reaper(main)
