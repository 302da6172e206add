"""`nas.refine` says which winner's weights it could not take over, and why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from daskevo.search import TransferReport
from daskevo_workflows.execution.refine import say_what_began_anew
from tests.logs import said_by_daskevo


def test_what_is_not_inherited_whole_is_said(caplog: pytest.LogCaptureFixture) -> None:
    def report(name: str, transfer: TransferReport | None) -> Any:
        return SimpleNamespace(model_id=name, transfer=transfer)

    say_what_began_anew(
        [
            report("whole", TransferReport("whole model", "all layers are shared", inherited=3, layers=3)),
            report("failed", None),
            report("part", TransferReport("other settings", "gate: its own code", inherited=1, layers=3)),
        ]
    )
    (said,) = said_by_daskevo(caplog)
    assert said == (
        "part did not begin with all weights of its winner: it inherited 1 of 3 layers with weights, 0 frozen; "
        "then other settings: gate: its own code"
    )
