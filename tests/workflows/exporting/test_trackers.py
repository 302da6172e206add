"""The problem of docs/trackers.md writes what TensorBoard reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from daskevo_workflows.evaluation.training import Stopwatch, train
from daskevo_workflows.problems import load_problem

DOCUMENT = Path(__file__).parents[3] / "docs" / "trackers.md"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TensorBoard's own
def test_each_evaluation_is_a_run_of_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard isn't installed: pip install tensorboard")
    monkeypatch.chdir(tmp_path)
    found = re.search(r"```python\n# tracked\.py\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    Path("tracked.py").write_text(found[1])
    problem = load_problem("tracked.py")
    choices = {"layer0": [16, "relu"], "layer1": None, "layer2": None, "layer3": None}
    for _ in range(2):
        train(problem, problem.build(choices), problem.data(), Stopwatch())
    events = list(Path("logs").glob("*/train/events.out.tfevents.*"))
    assert len(events) == 2
    assert all(b"epoch_loss" in path.read_bytes() for path in events)
