"""Count the states of the protocol as implemented: two writers, a retirement, and faults, in every order.

Run it from the root of the repository as ``python -m benchmarks.every_state [--scene NAME] [--patient]
[--faults late=1,crash=1] [--most STATES]``. For each scene and budget of faults it prints how many states and
transitions there are, how deep they lie, the seconds and the memory that they took, and the shortest trace to a broken
promise, if there is one. With ``--rules`` alone it leaves each rule out in turn, and prints the trace that shows what
it is for.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Iterator

from tests.faults.switched_off import SHORTEST, SWITCHED_OFF
from tests.protocol.checker import Behaviour
from tests.protocol.checker.exhaustive.search import Exploration, explore
from tests.protocol.checker.exhaustive.system import System
from tests.protocol.checker.explore import SCENARIOS

WRITERS = ("twice", "parent_and_child")
BUDGETS: tuple[dict[str, int], ...] = (
    {},
    {"late": 1},
    {"double": 1},
    {"crash": 1},
    {"kill": 1},
    {"end": 1},
    {"cut": 1},
    {"restart": 1},
    {"renew": 1},
    {"rewrite": 1},
    {"restart": 1, "outlive": 1},
    {"late": 1, "double": 1},
    {"crash": 1, "late": 1},
    {"crash": 1, "kill": 1},
    {"crash": 1, "late": 1, "double": 1},
    {"renew": 1, "crash": 1},
    {"rewrite": 1, "crash": 1},
)
"""Every fault of the protocol alone, then together."""


def main() -> None:
    """Read the arguments and count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scene", choices=sorted(SCENARIOS), help="one scene (default: both with two writers)")
    parser.add_argument("--faults", help="one budget, such as late=1,crash=1 (default: a list of them)")
    parser.add_argument("--most", type=int, default=3_000_000, help="stop after so many states (default: %(default)s)")
    parser.add_argument("--patient", action="store_true", help="writers stage, publish and ask again, one by one")
    parser.add_argument("--rules", action="store_true", help="leave each rule out in turn")
    arguments = parser.parse_args()
    if arguments.rules:
        for rule, found in _rules():
            print(f"\n{rule} ({SHORTEST[rule][0]}, {SHORTEST[rule][1] or 'no fault'}): {found.states:,} states")
            print(f"  {found.violation or 'nobody misses it'}")
        return
    budgets = BUDGETS if arguments.faults is None else (_budget(arguments.faults),)
    behaviour = Behaviour() if arguments.patient else Behaviour(retries=1, separate_publish=False)
    print("| scene | faults | states | transitions | ends | depth | seconds | MiB | outcome |")
    print("|---|---|---|---|---|---|---|---|---|")
    for budget in budgets:
        for scene in WRITERS if arguments.scene is None else (arguments.scene,):
            found = explore(System(behaviour=behaviour), SCENARIOS[scene], budget, arguments.most)
            _row(scene, budget, found)


def _row(scene: str, budget: dict[str, int], found: Exploration) -> None:
    outcome = "all, no violation" if found.complete else "stopped, no violation"
    if found.violation is not None:
        outcome = str(found.violation)
    faults = ", ".join(budget) or "none"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    numbers = (
        f"{found.states:,} | {found.transitions:,} | {found.ends:,} | {found.depth} | {found.seconds:.0f} | {memory}"
    )
    print(f"| {scene} | {faults} | {numbers} | {outcome} |", flush=True)


def _rules() -> Iterator[tuple[str, Exploration]]:
    for rule, (scene, budget) in SHORTEST.items():
        yield rule, explore(SWITCHED_OFF[rule].system(), SCENARIOS[scene], budget)


def _budget(text: str) -> dict[str, int]:
    parts = (part.partition("=") for part in text.split(",") if part)
    return {kind: int(count or 1) for kind, _, count in parts}


if __name__ == "__main__":
    main()
