"""The inheritance tree as rows, parents above their children, bounded for any number of models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from daskevo_plugins.dashboard.repository_view import ModelRow

MOST_ROWS = 120


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A row of the tree.

    Parameters
    ----------
    open:
        For each level above it, outermost first: whether a line to a later sibling passes.
    has_next:
        Whether a sibling follows.
    is_direct:
        Whether the row above is its ancestor; otherwise that is gone, and the row above stored most of what it
        inherits.
    left_out:
        Number of children that are not drawn.
    shade:
        Rank of its quality among published models, 0 to 1 (best); None if it has no quality.
    """

    model: ModelRow
    open: tuple[bool, ...]
    has_next: bool
    has_children: bool
    is_direct: bool
    left_out: int
    shade: float | None
    is_best: bool

    @property
    def depth(self) -> int:
        return len(self.open)


@dataclass(frozen=True, slots=True)
class LineageTree:
    """The rows from top to bottom, and the number of models left out."""

    rows: tuple[TreeRow, ...]
    left_out: int


def lineage_tree(models: Sequence[ModelRow], most: int = MOST_ROWS) -> LineageTree:
    """Return the tree of the models of one scope.

    If there are too many, the best ones and those with the most heirs are drawn, each with its ancestors.
    """
    by_id = {model.model_id: model for model in models}
    parents = {model.model_id: _parent(model, by_id) for model in models}
    _without_circles(parents)
    kept = _kept(models, parents, most)
    children: dict[str | None, list[str]] = {}
    left_out: dict[str | None, int] = {}
    for model_id in sorted(by_id):
        parent = parents[model_id]
        if model_id in kept:
            children.setdefault(parent, []).append(model_id)
        else:
            left_out[parent] = left_out.get(parent, 0) + 1
    # Families first: models that share with no other say least.
    roots = sorted(children.get(None, ()), key=lambda root: (root not in children, root))
    shades = _shades(models)
    best = max(shades, key=lambda model_id: shades[model_id], default=None)
    rows = tuple(
        TreeRow(
            by_id[model_id],
            passes,
            has_next,
            model_id in children,
            by_id[model_id].ancestor == parents[model_id],
            left_out.get(model_id, 0),
            shades.get(model_id),
            model_id == best,
        )
        for model_id, passes, has_next in walk(roots, children)
    )
    return LineageTree(rows, len(by_id) - len(rows))


def _parent(model: ModelRow, by_id: Mapping[str, ModelRow]) -> str | None:
    """Return the parent in the tree: the ancestor or, if it is gone, the model that stored most of the inheritance."""
    for name in (model.ancestor, model.contributor):
        if name is not None and name in by_id and name != model.model_id:
            return name
    return None


def _without_circles(parents: dict[str, str | None]) -> None:
    """Break cycles, which invalid rows may contain."""
    known: set[str] = set()
    for model_id in parents:
        walk: dict[str, None] = {}
        current: str | None = model_id
        while current is not None and current not in known and current not in walk:
            walk[current] = None
            current = parents[current]
        # Cut behind the last model of the walk; any place of the circle would do.
        if current in walk:
            parents[next(reversed(walk))] = None
        # What leads to a root once need not be walked again: all models together take one pass.
        known.update(walk)


def _kept(models: Sequence[ModelRow], parents: dict[str, str | None], most: int) -> set[str]:
    """Return the models to draw, each with its ancestors; lines that are longer than half of all rows are cut above."""
    by_quality = sorted(models, key=lambda model: (-_rank(model), model.model_id))
    by_heirs = sorted(models, key=lambda model: (-model.heirs, model.model_id))
    kept: set[str] = set()
    # In turns, so that neither the best nor those with the most heirs crowd out the others.
    for pair in zip(by_quality, by_heirs, strict=True):
        for model in pair:
            line: list[str] = []
            current: str | None = model.model_id
            # Up to a root, or to a model that is drawn already.
            while current is not None and current not in kept and len(line) < max(1, most // 2):
                line.append(current)
                current = parents[current]
            # A line that doesn't fit is left out as a whole: a part of it would push out others.
            if not line or len(kept) + len(line) > most:
                continue
            if current is not None and current not in kept:
                # Its ancestor is not drawn, and the row says so: it would look like one from scratch.
                parents[line[-1]] = None
            kept.update(line)
    return kept


def walk(
    roots: Sequence[str], children: Mapping[str | None, Sequence[str]]
) -> Iterator[tuple[str, tuple[bool, ...], bool]]:
    """Yield each model, per level above it whether a later sibling follows, and whether one follows on its own.

    Iterative, since chains may exceed Python's recursion limit.
    """
    # Reversed, because the last one put on a stack is the first that is taken.
    stack: list[tuple[str, tuple[bool, ...], bool]] = [(root, (), False) for root in reversed(roots)]
    while stack:
        model_id, passes, has_next = stack.pop()
        yield model_id, passes, has_next
        below = list(children.get(model_id, ()))
        for place, child in reversed(list(enumerate(below))):
            stack.append((child, (*passes, has_next), place < len(below) - 1))


def _rank(model: ModelRow) -> float:
    if model.quality is None or model.objective is None:
        return float("-inf")
    direction = model.objective.split(" ", 1)[0]
    return -model.quality if direction == "min" else model.quality


def _shades(models: Sequence[ModelRow]) -> dict[str, float]:
    """Return the rank of each published model's quality among all, 0 to 1."""
    ranked = sorted(
        (_rank(model), model.model_id)
        for model in models
        if model.state == "published" and model.quality is not None and model.objective is not None
    )
    # By rank and not by quality: one model that never learnt would leave all others the same shade.
    last = max(1, len(ranked) - 1)
    return {model_id: place / last for place, (_, model_id) in enumerate(ranked)}
