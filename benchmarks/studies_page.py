"""What the page of running studies costs the scheduler, with no viewer and with ten, and its study.

Run it as ``python -m benchmarks.studies_page [--updates 50]``: a scheduler without workers in this process gets
news of studies of some sizes, all different, while viewers in another process fetch each of them as browsers do. It
prints milliseconds of processor time per update, medians of five rounds in which the numbers of viewers took turns: of
the scheduler's thread, all that it does included, and of a study's process for its tree and the news made of it.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

from distributed import Client, Scheduler

from daskevo.tuning import Configuration, Constant, SearchPlan, Trajectory, concatenate
from daskevo.tuning.progress_tree import Asked, progress_tree
from daskevo_workflows.dashboard.dashboard_client import ask
from daskevo_workflows.studies.study_view import StudyView

SIZES = (20, 100, 1000)
"""Trials."""
VIEWERS = (0, 10)
STEPS = 64
ROUNDS = 5

VIEWER = """
import asyncio, sys
from tornado.httpclient import AsyncHTTPClient

async def view(url, every_s):
    seen = ""
    while True:
        answer = await AsyncHTTPClient().fetch(f"{url}/now?seen={seen}")
        seen = answer.headers.get("X-Daskevo-Version", seen)
        await asyncio.sleep(every_s)

async def main(url, count, every_s):
    AsyncHTTPClient.configure(None, max_clients=100)
    await asyncio.gather(*(view(url, every_s) for _ in range(count)))

asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
"""


def trials(count: int) -> list[Asked]:
    """Trials that part from each other at many steps; each has another rate in the end."""
    found = []
    for number in range(count):
        step = 1 + number * 7 % (STEPS - 1)
        rate = concatenate(Constant(0.1), (step, Constant(0.01 / (1 + number))))
        came = "done" if number % 3 == 0 else "waiting"
        quality = 0.5 + number % 50 / 100 if came == "done" else None
        found.append(Asked(f"trial-{number}", Trajectory("m", Configuration({"lr": rate})), STEPS, came, quality))  # type: ignore[arg-type]
    return found


async def round_ms(client: Client, url: str, picture: StudyView, viewers: int, updates: int, number: int) -> float:
    """Return milliseconds of this thread's processor time per update."""
    every_s = 0.1
    command = [sys.executable, "-c", VIEWER, url, str(viewers), str(every_s)]
    process = subprocess.Popen(command) if viewers else None
    try:
        await asyncio.sleep(1.0 if viewers else 0.1)
        news = [replace(picture, name=f"{number}-{update}").news(client.id) for update in range(updates)]
        spent_s = 0.0
        for one in news:
            began = time.thread_time()
            await ask(client, one, is_there=True)
            # As many turns of the viewers as there are updates: each sees each once.
            await asyncio.sleep(every_s)
            spent_s += time.thread_time() - began
    finally:
        if process is not None:
            process.kill()
            process.wait()
    return spent_s / updates * 1e3


def picture_ms(asked: list[Asked]) -> tuple[float, float]:
    """Return milliseconds of a tree, and of the news made of it."""
    plan = SearchPlan()
    progress_tree(plan, asked)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        began = time.thread_time()
        tree = progress_tree(plan, asked)
        middle = time.thread_time()
        StudyView("s", "study", "loss", "running", tree, ()).news("c")
        times[0].append((middle - began) * 1e3)
        times[1].append((time.thread_time() - middle) * 1e3)
    return statistics.median(times[0]), statistics.median(times[1])


async def measure(updates: int) -> None:
    async with (
        Scheduler(dashboard=True, dashboard_address=":0", port=0, host="127.0.0.1") as scheduler,
        Client(scheduler.address, asynchronous=True) as client,
    ):
        url = f"http://localhost:{scheduler.http_server.port}{(await ask(client))['path']}"
        print(f"{'trials':>7} {'tree':>7} {'news':>7}" + "".join(f" {count:>3} viewers" for count in VIEWERS))
        for count in SIZES:
            asked = trials(count)
            picture = StudyView("s", "study", "loss", "running", progress_tree(SearchPlan(), asked), ())
            spent: dict[int, list[float]] = {viewers: [] for viewers in VIEWERS}
            for number in range(ROUNDS):
                for viewers in VIEWERS:
                    found = await round_ms(client, url, picture, viewers, updates, number)
                    spent[viewers].append(found)
            tree, news = picture_ms(asked)
            row: Any = "".join(f" {statistics.median(spent[viewers]):11.2f}" for viewers in VIEWERS)
            print(f"{count:>7} {tree:7.2f} {news:7.2f}{row}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=50)
    arguments = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}; ms of processor time")
    asyncio.run(measure(arguments.updates))


if __name__ == "__main__":
    main()
