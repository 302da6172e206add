"""Lines for programs: one JSON object with exactly the keys that are promised, as the last line of stdout."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import click

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON at the end, for programs.")

NAS_KEYS = (
    "evaluations",
    "failures",
    "best_quality",
    "best_model",
    "transferred",
    "mean_frozen_share",
    "runtime_s",
    "evaluation_s",
    "repository_s",
    "stored_bytes",
    "full_copy_bytes",
    "live_models",
    "population",
)
"""What ``daskevo nas --json`` ends with.

``transferred``: evaluations that inherited something; ``stored_bytes``: payload of the living models;
``population``: its size; ``repository_s`` and ``evaluation_s``: sums over trainers, in seconds. With several objectives
there is ``front`` more, best first by the first one: a list of ``{"model", "metrics"}``, the objectives' metrics only.
"""

TUNE_KEYS = (
    "trials",
    "total_steps",
    "unique_steps",
    "trained_steps",
    "merge_rate",
    "saving",
    "runtime_s",
    "best",
)
"""What ``daskevo tune --json`` ends with.

``total_steps``: of all trials, each by itself; ``unique_steps``: with equal steps once; ``trained_steps``: those that
were trained; ``merge_rate`` and ``saving``: how many times the total is of the unique and of the trained ones, the
latter null if none was trained; ``best``: ``{"quality", "step", "hyperparameters", "snapshot"}``, or null.
"""

FORECAST_KEYS = (
    "evaluations",
    "trainers",
    "seconds",
    "jobs",
    "evaluations_per_job",
    "living_bytes",
    "all_bytes",
    "full_bytes",
    "assumptions",
    "load",
)
"""What ``daskevo forecast --json`` ends with.

``seconds`` and ``jobs``: ``{"value", "low", "high"}``; the latter, and ``evaluations_per_job``, null without a
walltime. ``load``: ``{"mean", "highest", "cores", "looks"}``, load averages of the trainers' machine while it was
measured; null if they are not known.
"""

CHECK_KEYS = ("problem", "sound", "looked_at", "found")
"""What ``daskevo check --json`` ends with.

``looked_at``: a sentence for each thing, as it was found; ``found``: what a search can't rely on, or null.
"""

VERIFY_KEYS = (
    "clean",
    "differences",
    "models",
    "tensors",
    "payload_bytes",
    "mended",
    "lost",
    "foreign",
    "file_bytes",
)
"""What ``daskevo verify --json`` ends with.

``mended``: differences that a repair found, and that aren't there any more; ``lost``: ``{"model", "since", "words"}``
of each model that can't be loaded any more, as a repair has marked it; ``foreign``: paths under the root that daskevo
doesn't make; ``file_bytes``: of all files under the root.
"""


def json_line(keys: tuple[str, ...], values: Mapping[str, Any]) -> str:
    """Return one line of JSON with these keys, in this order.

    Raises
    ------
    KeyError
        If a key is missing: a promise to programs is broken.
    """
    # By the promised keys, not by what is there: a new figure inside doesn't change what programs get.
    return json.dumps({key: _finite(values[key]) for key in keys}, allow_nan=False)


def print_json_line(keys: tuple[str, ...], values: Mapping[str, Any]) -> None:
    """Print the line to stdout."""
    click.echo(json_line(keys, values))


def _finite(value: Any) -> Any:
    """JSON has no NaN: what is no number is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
