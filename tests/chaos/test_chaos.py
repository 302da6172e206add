"""One minute of chaos for real: nothing lost, nothing left over, the budget met. Clean, or a failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import ledger
from tests.chaos.__main__ import CHAOS_KEYS
from tests.rights import in_ci

RUN = [sys.executable, "-m", "tests.chaos"]


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(900)
def test_one_minute_of_chaos(tmp_path: Path) -> None:
    folder = tmp_path / "trial"
    done = subprocess.run(
        [*RUN, "--minutes", "1", "--seed", "1", "--folder", str(folder), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert tuple(outcome)[: len(CHAOS_KEYS)] == CHAOS_KEYS
    assert outcome["clean"] is True
    assert outcome["evaluations"] == 20
    assert outcome["published"] >= 20
    # Kills may come between an answer and the line that notes it, and no more than kills.
    told = ledger.read(folder / "ledger.jsonl")
    assert sum(bool(digests) for digests in told.stored.values()) >= 20 - outcome["kills"]
    # How many come of which kind is chance, and on a fast machine the search ends sooner.
    assert outcome["kills"] + outcome["partitions"] >= 1
    for name in ("lost", "dangling", "leaked_tensors", "leaked_bytes"):
        assert outcome[name] == 0
    if in_ci():
        assert "note" not in outcome
    assert not (folder / "repository").exists() or "note" in outcome
