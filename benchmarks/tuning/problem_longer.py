"""The problem with three times as many images, for how starting weighs less where trainings are longer."""

from __future__ import annotations

from benchmarks.tuning.problem import Clothes

problem = Clothes(images=9_000)
