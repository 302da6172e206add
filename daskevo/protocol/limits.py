"""Size limits of messages and records, the same for writing and reading, so that everything written can be read.

Codecs check them when they encode (`InvalidInput`, before anything is written) and when they decode (`CorruptRecord`).
Shards check the number of a model's labels, which grows in place.
"""

from __future__ import annotations

MAX_TENSORS = 2**20
"""Most tensors of one model, and entries of any other list or mapping."""

MAX_DEPTH = 100
"""Deepest nesting of free JSON values, such as configurations and values that callers attach."""

MAX_LABELS = 10_000
"""Most labels that one model may get under one coordinator, removed ones included."""

MAX_RECORD_BYTES = 64 << 20
"""Longest record appended to a journal, in bytes of JSON. The longest are models' records, with attached values."""

MAX_HEAD_RECORD_BYTES = 2 * MAX_RECORD_BYTES
"""Longest record in the head of a journal, in bytes: a model's record with all its labels and the numbers of its living
tensors, which take less than 40 MB at their limits."""
