"""How large what is sent and stored may be: the same in both directions, so that what was written can be read.

Codecs hold to it when they write (`InvalidInput`, before anything has been written) and when they read
(`CorruptRecord`). What grows in place, the labels of a model, is refused by the shard before it grows too large.
"""

from __future__ import annotations

MAX_TENSORS = 2**20
"""Most tensors of one model, and entries of any other list or mapping."""

MAX_DEPTH = 100
"""Deepest nesting of free JSON values (configurations, what callers attach)."""

MAX_LABELS = 10_000
"""Most labels that one model may be given under one coordinator; those that were taken away count."""

MAX_RECORD_BYTES = 64 << 20
"""Longest record, as JSON, that is appended to a journal: a model's own is the longest, and holds what was attached."""

MAX_HEAD_RECORD_BYTES = 2 * MAX_RECORD_BYTES
"""Longest record in the head of a journal: a model's own, with all its labels and the numbers of the tensors that it
keeps (less than 40 MB where each of them is as long as it may be)."""
