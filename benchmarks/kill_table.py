"""Kill a process at every step of put, retire and put of a snapshot, and print what came of each kill.

Run it from the root of the repository as ``python -m benchmarks.kill_table [--every N] [--json]``. The table says
for each step and victim what the caller got, and whether afterwards everything was as promised: what was answered is
there bit by bit, nothing dangles, and nothing is left once all has been retired.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.faults.kills import Bench, Outcome, scheduler_steps, try_scheduler


def table(outcomes: list[Outcome]) -> str:
    """Return the outcomes as a table."""
    lines = ["| operation | killed | at | its caller got | afterwards |", "|---|---|---|---|---|"]
    for cell, answer, wrong in outcomes:
        lines.append(f"| {cell.operation} | {cell.victim} | {cell.step} | {answer} | {'; '.join(wrong) or 'right'} |")
    return "\n".join(lines)


def main() -> None:
    """Try every N-th cell and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="try each N-th step only (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        try:
            outcomes = []
            for cell in bench.steps()[:: arguments.every]:
                outcomes.append(bench.try_cell(cell))
                print(*outcomes[-1].cell, "->", outcomes[-1].answer, *outcomes[-1].wrong, file=sys.stderr, flush=True)
        finally:
            bench.close()
        for number, cell in enumerate(scheduler_steps(Path(folder))[:: arguments.every]):
            outcomes.append(try_scheduler(cell, Path(folder) / f"job-{number}"))
    found = [{**outcome.cell._asdict(), "answer": outcome.answer, "wrong": outcome.wrong} for outcome in outcomes]
    print(json.dumps(found) if arguments.json else table(outcomes))
    sys.exit(any(outcome.wrong for outcome in outcomes))


if __name__ == "__main__":
    main()
