"""Losses that a repair can't undo: tensors that are gone, and published models that are lost with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from daskevo.protocol.audit import Difference
from daskevo.protocol.messages import Restore
from daskevo.protocol.snapshot import ShardSnapshot
from daskevo.types import ModelId


class Mark(NamedTuple):
    """Mark of one lost tensor: when a repair found the loss, and its description."""

    since: str
    found: str


Marks = Mapping[ModelId, Mapping[int, Mark]]
"""Owner -> tensor number at the owner -> mark."""


class LostModel(NamedTuple):
    """A published model that can't be loaded any more.

    `since`: when a repair found the loss, ISO 8601 in UTC; `words`: the tensors that are gone, and what to do.
    """

    model: ModelId
    since: str
    words: str


def tensors_gone(found: Iterable[Difference]) -> dict[ModelId, dict[int, str]]:
    """Return the tensors that are gone according to differences: owner -> number -> description."""
    gone: dict[ModelId, dict[int, str]] = {}
    for difference in found:
        if difference.kind in ("missing tensor", "damaged tensor") and difference.owner is not None:
            words = "it is not stored" if difference.kind == "missing tensor" else difference.words
            for number in difference.numbers:
                gone.setdefault(difference.owner, {}).setdefault(number, words)
    return gone


def restores(snapshots: Collection[ShardSnapshot], found: Iterable[Difference]) -> list[Restore]:
    """Return messages that restore missing bits of published models on tensors that are still stored."""
    models = {view.model: view for snapshot in snapshots for view in snapshot.models}
    messages = []
    for difference in found:
        if difference.kind == "missing reference" and difference.owner in models and difference.model is not None:
            there = difference.numbers & models[difference.owner].alive
            if there:
                attempt = models[difference.model].attempt
                messages.append(Restore(difference.owner, difference.model, attempt, there))
    return messages


def lost_models(snapshots: Iterable[ShardSnapshot], marks: Marks) -> list[LostModel]:
    """Return the published models that use marked tensors, by id."""
    lost = []
    for snapshot in snapshots:
        for view in snapshot.models:
            gone = {
                owner: {number: marks[owner][number] for number in numbers & marks[owner].keys()}
                for owner, numbers in view.uses.items()
                if owner in marks and numbers & marks[owner].keys()
            }
            if view.state == "published" and gone:
                since = min(mark.since for numbers in gone.values() for mark in numbers.values())
                lost.append(LostModel(view.model, since, _words(view.model, gone)))
    return sorted(lost)


def unexplained(found: Iterable[Difference], snapshots: Iterable[ShardSnapshot], marks: Marks) -> list[Difference]:
    """Return the differences that are not due to marked losses."""
    alive = {view.model: view.alive for snapshot in snapshots for view in snapshot.models}
    rest = []
    for difference in found:
        if difference.owner is not None:
            numbers = difference.numbers or alive.get(difference.owner, frozenset())
            kinds = ("missing tensor", "missing reference", "damaged tensor", "missing file")
            if difference.kind in kinds and numbers and numbers <= marks.get(difference.owner, {}).keys():
                continue
        rest.append(difference)
    return rest


def _words(model: ModelId, gone: Mapping[ModelId, Mapping[int, Mark]]) -> str:
    parts = []
    for owner, marks in sorted(gone.items()):
        found = next(iter(marks.values())).found
        which = "its own" if owner == model else f"those of {owner}"
        parts.append(f"tensors {sorted(marks)} ({which}) are gone: {found}")
    return f"{model} can't be loaded any more: {'; '.join(parts)}"
