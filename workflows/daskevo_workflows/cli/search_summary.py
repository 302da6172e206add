"""Messages of `daskevo status` and of `nas` or `tune`: best models, hyper-parameters, what was inherited or stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from daskevo_workflows.measurements.tables import padded

if TYPE_CHECKING:
    from daskevo.tuning import Configuration
    from daskevo_workflows.results.result import Found, Result


def say_models(result: Result, shown: Sequence[Found]) -> list[str]:
    """Return a line for each model: its figures for all objectives in columns, its id, a mark if it is gone."""
    from daskevo_plugins.formatting import say_qualities
    from daskevo_workflows.results.model_status import mark

    states = result.standings([found.model_id for found in shown])
    first, *others = result.objectives
    columns = [(first.metric, say_qualities([found.quality for found in shown]))]
    columns += [(one.metric, say_qualities([found.metrics.get(one.metric) for found in shown])) for one in others]
    names, words = zip(*columns, strict=True)
    rows = padded(list(zip(*words, strict=True)), right=range(len(names)))
    return [
        "  ".join([*map("{} {}".format, names, figures), found.model_id + mark(found.model_id, states)])
        for found, figures in zip(shown, rows, strict=True)
    ]


def say_inherited(result: Result, transferred: int) -> str:
    """Say how many evaluations inherited something."""
    match result.info.identity.get("policy"):
        case {"transfer": False}:
            return "nothing was inherited, as this run is without transfer"
    return f"{transferred} inherited a prefix of layers"


def say_stored(summary: Mapping[str, Any]) -> str | None:
    """Say what the repository stores for a search, given its `Result.summary`; None if that was never sampled."""
    from daskevo_plugins.formatting import say_bytes, say_count, say_times

    stored, full = summary["stored_bytes"], summary["full_copy_bytes"]
    if stored is None:
        return None
    living = say_count(summary["live_models"] or 0, "living model")
    # Below 5 % the figures look the same, and a factor of 1.0 says nothing.
    ratio = f" ({say_times(full / stored)})" if stored and full and full > 1.05 * stored else ""
    return f"{say_bytes(stored)} for {living}; full copies would take {say_bytes(full)}{ratio}"


def say_hyperparameters(configuration: Configuration, most: int = 500) -> str:
    """Say the hyper-parameters of a trial in at most so many characters."""
    from daskevo_plugins.formatting import plain

    named = {**configuration.sequences, **configuration.constants}
    return plain(", ".join(f"{name}={value!r}" for name, value in named.items()), most)
