"""A search whose providers reach the end of a short lifetime again and again, as under a batch system's walltime.

Run it as ``python -m benchmarks.lifetimes [--seconds 90] [--lifetime 20] [--providers 2]``: it starts providers
with Dask's own ``--lifetime``, ``--lifetime-stagger`` and ``--lifetime-restart``, and searches a tiny space until the
time is over and each provider has turned over twice. Printed are the turnovers of each, the evaluations and what
`verify` finds; the exit code is 1 if anything is lost or scored twice. (``tests/workflows/test_turnover.py`` ends
lifetimes by hand, in seconds.)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from daskevo.deploy.worker_list import workers_of

PROBLEM = Path(__file__).parents[1] / "tests" / "workflows" / "tiny.py"


def main() -> int:
    """Search, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--lifetime", type=float, default=20.0, help="seconds, a quarter more or less")
    parser.add_argument("--providers", type=int, default=2)
    given = parser.parse_args()

    import daskevo
    from daskevo.deploy import local
    from daskevo.search import AgedEvolution
    from daskevo_workflows import nas

    plain = local.provider_options
    lifetime = {
        "lifetime": f"{given.lifetime}s",
        "lifetime_stagger": f"{given.lifetime / 4}s",
        "lifetime_restart": True,
    }
    local.provider_options = lambda threads: {**plain(threads), **lifetime}
    seen: dict[str, set[str]] = defaultdict(set)
    with (
        tempfile.TemporaryDirectory() as folder,
        daskevo.local_cluster(trainers=1, providers=given.providers, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        client.wait_for_workers(1 + given.providers, timeout=180)
        root = Path(folder) / "root"
        repository = daskevo.open(root, "tiny", client=client, objective="max val_accuracy", shards=8)

        def look(_: Any = None) -> None:
            for address, worker in workers_of(client).items():
                if str(worker["name"]).startswith("provider"):
                    seen[str(worker["name"])].add(address)

        problem = Path(folder) / "tiny.py"
        wider = "FIRST, SECOND = tuple(range(4, 64, 2)), tuple(range(3, 60, 3))\n"
        problem.write_text(PROBLEM.read_text().replace("\n\ndef space()", f"\n\n{wider}\n\ndef space()", 1))
        began, total, result = time.monotonic(), 0, None
        while time.monotonic() < began + given.seconds or min(map(len, seen.values())) < 3:
            total += 5
            result = nas.search(
                problem,
                AgedEvolution(4, 2),
                repository=repository,
                evaluations=total,
                run=Path(folder) / "run",
                seed=3,
                on_progress=look,
            )
            look()
        took = time.monotonic() - began
        client.wait_for_workers(1 + given.providers, timeout=120)
        assert result is not None
        models = [report.model_id for report in result.reports]
        verification = repository.verify()
    for name, addresses in sorted(seen.items()):
        print(f"{name}: {len(addresses) - 1} turnovers")
    print(f"{took:.0f} s, {total} evaluations asked for, {len(models)} reports, {len(set(models))} models")
    print("verify:", "clean" if verification.clean else verification.differences)
    failed = result.summary()["failures"]
    print(f"{failed} failed")
    return 0 if verification.clean and len(models) == len(set(models)) == total and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
