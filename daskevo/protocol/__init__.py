"""Who owns which tensor, who refers to it, what keeps a model alive: pure state machines, no I/O, no clocks."""

from __future__ import annotations
