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


@pytest.mark.parametrize(
    ("name", "size"),
    [("digits_built.py", sum((3 * 3) ** layers for layers in (1, 2, 3))), ("digits_mutated.py", 2 * (4 + 8) * 2)],
)
def test_its_problems_are_sound(name: str, size: int, tmp_path: Path) -> None:
    assert set(FILES) == {"digits_built.py", "digits_mutated.py"}
    path = tmp_path / name
    # Eager: tracing a graph would take longer than training.
    path.write_text(FILES[name].replace('metrics=["accuracy"])', 'metrics=["accuracy"], run_eagerly=True)'))
    problem = check_problem(path, candidates=1, batches=1)
    found = space_of(problem).size
    assert found == Size("exact", size) or (size > 200 and found == Size("at least", 201))
