"""Runs to report on: made series of any size, and a real record written through `RunRecord`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from daskevo.types import Objective
from daskevo_workflows.reports.series import EvaluationRow, RunSeries, StorageSample

MakeRun = Callable[..., RunSeries]


def _run(
    n: int,
    *,
    seed: int = 0,
    transfer: bool = True,
    workers: int = 2,
    label: str = "attn",
    failures: float = 0.1,
    objective: str = "max val_auc",
    **changes: Any,
) -> RunSeries:
    rng = random.Random(seed)
    clock = [0.0] * workers
    evaluations: list[EvaluationRow] = []
    storage: list[StorageSample] = []
    living: list[tuple[str, int, int]] = []
    for number in range(n):
        worker = min(range(workers), key=clock.__getitem__)
        ancestor = rng.choice(living)[0] if transfer and living and rng.random() < 0.9 else None
        share = round(rng.uniform(0.2, 0.8), 2) if ancestor else 0.0
        seconds = {"build": 0.1, "first_step": 1.0, "training": 3 * (1 - share / 2), "scoring": 0.3, "put": 0.03}
        if transfer:
            seconds |= {"query": 0.01, "inherit": 0.02}
        start, clock[worker] = clock[worker], clock[worker] + math.fsum(seconds.values())
        failed = rng.random() < failures
        model_id, full = f"{label}-{number:05d}", rng.randint(100_000, 400_000)
        evaluations.append(
            EvaluationRow(
                number=number,
                model_id=model_id,
                status="failed" if failed else "finished",
                started_s=start,
                ended_s=clock[worker],
                worker=f"trainer-{worker}",
                quality=None if failed else 0.6 + rng.gauss(0, 0.02),
                step=94,
                reason=f"not finite: val_auc of {model_id} is NaN" if failed else "",
                seconds=seconds,
                asked_transfer=transfer,
                parent=ancestor if rng.random() < 0.7 else None,
                ancestor=None if failed else ancestor,
                prefix=int(share * 20),
                vertices=20,
                frozen_share=None if failed else share,
                parameters=full // 4,
                own_bytes=int(full * (1 - share)),
                full_bytes=full,
                no_more="other settings" if ancestor else "no match",
                no_more_words=f"dense_{number}: units 64, the ancestor's 32" if ancestor else "no model shares a layer",
                choices={"block0/width": "64", "block1/activation": "relu"},
            )
        )
        if not failed:
            living = [*living, (model_id, int(full * (1 - share)), full)][-10:]
        storage.append(
            StorageSample(clock[worker], sum(own for _, own, _ in living), sum(f for *_, f in living), len(living))
        )
    fields: dict[str, Any] = {
        "label": label,
        "run_id": "3f2a91c0-0000-4000-8000-000000000000",
        "objective": Objective.parse(objective),
        "evaluations": tuple(sorted(evaluations, key=lambda e: e.ended_s or 0.0)),
        "storage": tuple(sorted(storage, key=lambda sample: sample.at_s)),
        "asked": n,
        "runtime_s": max(clock),
        "state": "finished",
        "facts": {"problem": "flights", "seed": str(seed), "machine": "2 cores"},
    }
    return RunSeries(**fields | changes)


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    return _run
