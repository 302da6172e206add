"""A view of a repository at one time: counts of its coordinator and answers of its providers, all validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from daskevo.provider.call_counts import BOUNDS_S
from daskevo_plugins.dashboard import message_checks as k  # kinds of fields

MOST_PROVIDERS = 1_000
MOST_SHARDS = 1 << 16
MOST_MODELS = 4_000
"""Maximum number of model rows in one view."""
FIGURES = (
    "shards",
    "models",
    "staged",
    "tensors",
    "stored_bytes",
    "file_bytes",
    "journal_bytes",
    "memory_bytes",
    "spilled_bytes",
    "full_copy_bytes",
    "retirements",
    "references",
    "reservations",
)
COUNTS = ("queries", "puts", "reservations", "reads")


class CountRow(NamedTuple):
    """Totals of one kind of call (see :class:`daskevo.provider.call_counts.Count`)."""

    calls: int
    items: int
    spent_s: float
    within: tuple[int, ...]


class ShardRow(NamedTuple):
    """A shard: its provider, number of models, bytes put there, bytes of its journal, messages about it."""

    shard: int
    provider: str
    models: int
    put_bytes: int
    journal_bytes: int
    asked: int


class ScopeRow(NamedTuple):
    """A scope: its objective, number of models, bytes that they stored, and bytes of full copies."""

    scope: str
    objective: str
    models: int
    put_bytes: int
    full_bytes: int


class ModelRow(NamedTuple):
    """A published model, or a retired one with heirs (see :func:`daskevo.provider.stats.row_of`)."""

    model_id: str
    scope: str
    state: str
    objective: str | None
    quality: float | None
    step: int
    ancestor: str | None
    contributor: str | None
    contributed: int
    own_bytes: int
    full_bytes: int
    own_tensors: int
    tensors: int
    heirs: int
    given_tensors: int
    given_bytes: int


@dataclass(frozen=True, slots=True)
class ProviderSight:
    """The answer of one provider."""

    name: str
    figures: Mapping[str, int]
    tally: Mapping[str, CountRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryView:
    """A repository at one time.

    Parameters
    ----------
    key:
        Identifies it within the cluster.
    root, durability:
        Of the repository; root None: in memory.
    at_s:
        Time of the view, by the board's clock.
    shards, unserved, lost:
        Number of shards, and those that are unserved or lost.
    attempts, unsettled:
        Attempts under way, and attempts that ended and are not settled yet.
    waiting:
        Retirements that have to wait, with the reason.
    providers, silent:
        Providers that answered, and those that did not, with the reason.
    models_in_all:
        Number of models that could have been listed.
    spent_s:
        Longest time that a provider's event loop spent on the answer.
    """

    key: str
    root: str | None
    durability: str
    at_s: float
    shards: int
    unserved: tuple[int, ...]
    lost: tuple[int, ...]
    attempts: int
    unsettled: int
    waiting: tuple[tuple[str, str], ...]
    quota_bytes: int | None
    providers: tuple[ProviderSight, ...]
    silent: tuple[tuple[str, str], ...]
    shard_rows: tuple[ShardRow, ...]
    scopes: tuple[ScopeRow, ...]
    labels: tuple[tuple[str, int], ...]
    models: tuple[ModelRow, ...]
    models_in_all: int
    spent_s: float

    @property
    def name(self) -> str:
        return "in memory" if self.root is None else self.root

    def total(self, figure: str) -> int:
        """Return the sum of a figure over all providers."""
        return sum(provider.figures[figure] for provider in self.providers)


def view_of(key: str, told: Mapping[str, Any], at_s: float) -> RepositoryView:
    """Validate the result of :meth:`daskevo_plugins.coordinator.plugin.CoordinatorPlugin.shown`.

    Raises
    ------
    CorruptRecord
        If a provider's answer is invalid.
    """
    # 1,000 letters for the names of each model: thousands of models in scopes with long names must still be shown.
    budget = k.Budget("a look at a repository", MOST_MODELS, 4_000_000)
    facts, providers = told["coordinator"], []
    shards: list[ShardRow] = []
    models: list[ModelRow] = []
    scopes: dict[str, ScopeRow] = {}
    labels: dict[str, int] = {}
    models_in_all, spent_s = 0, 0.0
    for name, answer in list(told["providers"].items())[:MOST_PROVIDERS]:
        provider, checked = k.short(name, budget), _ANSWER(answer, budget)
        providers.append(ProviderSight(provider, checked["figures"], checked["tally"]))
        shards += [ShardRow(shard, provider, *others) for shard, *others in checked["shards"]]
        for scope, objective, *sizes in checked["scopes"]:
            # Each provider tells the part of a scope that its own shards hold: the whole is their sum.
            before = scopes.get(scope, ScopeRow(scope, "", 0, 0, 0))
            sums = (one + other for one, other in zip(sizes, before[2:], strict=True))
            scopes[scope] = ScopeRow(scope, objective or before.objective, *sums)
        for label, holders in checked["labels"]:
            labels[label] = labels.get(label, 0) + holders
        models += checked["models"]
        models_in_all += checked["models_in_all"]
        spent_s = max(spent_s, checked["spent_s"])
    return RepositoryView(
        key=key,
        root=facts["root"],
        durability=facts["durability"],
        at_s=at_s,
        shards=facts["shards"],
        unserved=tuple(facts["unserved_shards"]),
        lost=tuple(facts["lost_shards"]),
        attempts=facts["live_attempts"],
        unsettled=facts["unsettled"],
        waiting=tuple((str(name), str(why)[:300]) for name, why in facts["waiting_retirements"].items()),
        quota_bytes=facts["quota_bytes"],
        providers=tuple(sorted(providers, key=lambda one: one.name)),
        # Reasons are errors' words, of any length.
        silent=tuple(sorted((str(name), str(why)[:300]) for name, why in told["silent"].items())),
        shard_rows=tuple(shards),
        scopes=tuple(sorted(scopes.values(), key=lambda row: -row.models)),
        labels=tuple(sorted(labels.items(), key=lambda item: (-item[1], item[0]))),
        models=tuple(models),
        models_in_all=models_in_all,
        spent_s=spent_s,
    )


_CALLS = k.row(CountRow._make, k.count, k.count, k.seconds, k.row(tuple, *[k.count] * (len(BOUNDS_S) + 1)))
_STATE = k.one_of(("published", "retiring", "retired"))
_RESULT = (k.or_none(k.short), k.or_none(k.number), k.count)
_PARENTS = (k.or_none(k.text), k.or_none(k.text))
_ANSWER = k.fields(
    "what a provider tells",
    {
        "figures": k.fields("a provider's figures", dict.fromkeys(FIGURES, k.count)),
        "tally": k.fields("a provider's calls", dict.fromkeys(COUNTS, _CALLS)),
        "shards": k.many(k.row(tuple, *[k.count] * 5), MOST_SHARDS),
        "scopes": k.many(k.row(tuple, k.text, k.or_none(k.short), k.count, k.count, k.count), 100),
        "labels": k.many(k.row(tuple, k.text, k.count), 100),
        "models": k.many(k.row(ModelRow._make, k.text, k.text, _STATE, *_RESULT, *_PARENTS, *[k.count] * 8)),
        "models_in_all": k.count,
        "spent_s": k.seconds,
    },
)
"""A provider's answer, field by field; shards, scopes, labels and models are rows."""
