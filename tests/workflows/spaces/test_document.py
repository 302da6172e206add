"""The files in docs/spaces.md are problems that a search can rely on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from daskevo.space import Size
from daskevo_workflows.problems import check_problem
from daskevo_workflows.problems.building import space_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "spaces.md"
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL))


@pytest.mark.parametrize("name", ["digits_built.py", pytest.param("digits_mutated.py", marks=pytest.mark.long)])
def test_its_problems_are_sound(name: str, tmp_path: Path) -> None:
    assert len(FILES) == 2
    path = tmp_path / name
    # Eager: tracing a graph would take longer than training.
    path.write_text(FILES[name].replace('metrics=["accuracy"])', 'metrics=["accuracy"], run_eagerly=True)'))
    problem = check_problem(path, candidates=1, batches=1)
    if name == "digits_mutated.py":
        assert space_of(problem).size == Size("exact", 2 * (4 + 8) * 2)
