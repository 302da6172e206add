"""Candidates that failed for a reason not their own are asked for again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from daskevo.errors import InvalidInput
from daskevo.search.protocol import Strategy
from daskevo.search.requests import Report, Request, Stop, View, model_id
from daskevo.search.wrapper import Wrapper
from daskevo.space import Candidate, ModelSpace
from daskevo.types import JSON, ModelId, Objective

Key = tuple[Candidate, int, int | None, ModelId | None]
"""What a request and its repetition have in common: candidate, repeat, last step, and the model that it continues."""


@dataclass
class _Open:
    """A request that failed, its last report, and how often it has been tried."""

    request: Request
    report: Report
    last: int
    tries: int


class Retry(Wrapper):
    """Ask again for a candidate whose evaluation failed through no fault of its own.

    Lost trainers, time limits and full disks come and go; what the same architecture would meet again (see
    :data:`daskevo.search.requests.OF_THE_CANDIDATE`) is not tried again. The strategy within hears of a candidate
    once: what came of the last try.

    Parameters
    ----------
    strategy:
        The strategy within.
    attempts:
        How often a candidate is evaluated at most.
    """

    word = "retry"
    asks_again = True

    def __init__(self, strategy: Strategy, attempts: int = 3) -> None:
        super().__init__(strategy)
        if attempts < 1:
            raise InvalidInput(f"attempts={attempts}: use 1 or more")
        self.attempts = attempts

    @property
    def own_settings(self) -> dict[str, JSON]:
        return {"attempts": self.attempts}

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        super().start(space, objectives, seed)
        self._open: dict[Key, _Open] = {}

    def ask(self, view: View) -> list[Request] | Stop:
        again = {_key(request) for request in view.pending}
        due = [opened for key, opened in self._open.items() if key not in again][: view.wanted]
        requests = [
            replace(
                opened.request,
                number=view.next_number + offset,
                model_id=model_id(view.prefix, view.next_number + offset),
            )
            for offset, opened in enumerate(due)
        ]
        if len(requests) == view.wanted:
            return requests
        # To the strategy within, what failed and is tried again is still the request that it asked for.
        fresh = [request for request in view.pending if _key(request) not in self._open]
        pending = sorted([*fresh, *(o.request for o in self._open.values())], key=lambda request: request.number)
        answer = self.strategy.ask(
            replace(
                view,
                wanted=view.wanted - len(requests),
                next_number=view.next_number + len(requests),
                pending=pending,
            )
        )
        if isinstance(answer, Stop):
            # What is under way may still fail, and be asked for again.
            return requests or ([] if view.pending else answer)
        return requests + answer

    def tell(self, request: Request, report: Report) -> None:
        opened = self._open.pop(_key(request), None)
        tries = 1 if opened is None else opened.tries + 1
        original = request if opened is None else opened.request
        failure = report.failure
        if report.status == "failed" and failure is not None and not failure.of_the_candidate and tries < self.attempts:
            self._open[_key(request)] = _Open(original, report, request.number, tries)
            return
        self.strategy.tell(original, replace(report, number=original.number))

    def stop(self) -> list[int]:
        numbers = []
        for number in self.strategy.stop():
            key = next((key for key, opened in self._open.items() if opened.request.number == number), None)
            if key is None:
                numbers.append(number)
            else:
                # It has failed: given up, it is not asked for again.
                self._open.pop(key)
        return numbers


def _key(request: Request) -> Key:
    return request.candidate, request.repeat, request.until_step, request.continues
