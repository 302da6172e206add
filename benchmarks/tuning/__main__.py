"""All tables of `grids_for_real`, `rungs_for_real`, `studies_for_real` and `policies_measured` again, from their files.

python -m benchmarks.tuning --summary FOLDER_OR_FILE

Of the FOLDER that they were given, all figures go to FOLDER/tuning.json, too, a line for each arm.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.tuning.arms import keep, kept
from benchmarks.tuning.tables import summary

PARTS = ("grids", "rungs", "studies", "policies")


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.tuning", description=__doc__)
    parser.add_argument("--summary", type=Path, required=True, metavar="FOLDER_OR_FILE")
    given = parser.parse_args().summary
    if given.is_file():
        print(summary(kept(given)[1]))
        return
    files = [given / f"{part}.json" for part in PARTS]
    rows = [row for file in files if file.exists() for row in kept(file)[1]]
    keep(given / "tuning.json", rows)
    print(summary(rows))


if __name__ == "__main__":
    main()
