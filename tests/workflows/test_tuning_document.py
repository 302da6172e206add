"""The problem file of docs/tuning.md is one that a study trains, and its figures are as the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from daskevo.search import Grid
from daskevo_workflows import tune

PAGE = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()


def test_its_problem_for_a_fixed_model(repository: Any, tmp_path: Path) -> None:
    name, text = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL)[0]
    (tmp_path / name).write_text(text)
    with tune.study(tmp_path / name, repository=repository, run=tmp_path / "run") as study:
        ahead = study.forecast()
        assert (f"{ahead.total_steps} epochs are asked for, {ahead.unique_steps} differ") in PAGE
        best = study.run(Grid(), evaluations=1).best()[0]
    assert best.step == 12
    assert best.quality > 0.7
    assert dict(best.configuration.constants) == {}
