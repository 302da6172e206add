"""A wrapper that asks again for candidates that failed for reasons outside of them."""

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
"""Identifies a request and its retries: candidate, repeat, last step, and the model that it continues."""


@dataclass
class _Open:
    """A failed request, its last report, the number of its last try, and how often it was tried."""

    request: Request
    report: Report
    last: int
    tries: int


class Retry(Wrapper):
    """Ask again for a candidate whose evaluation failed for a reason outside of it.

    Lost trainers, time limits and full disks are temporary. Failures that the same architecture would repeat (see
    :data:`daskevo.search.requests.OF_THE_CANDIDATE`) are not retried. The wrapped strategy is told once per candidate:
    the result of the last try.

    Parameters
    ----------
    strategy:
        The wrapped strategy.
    attempts:
        Maximum number of evaluations per candidate.
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
        # Retries that are running already.
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
        # To the wrapped strategy, a request that failed and is retried is still pending under its own number.
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
            # Pending requests may still fail and need a retry.
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
        # Under the number of the first try, the only one that the wrapped strategy knows.
        self.strategy.tell(original, replace(report, number=original.number))

    def stop(self) -> list[int]:
        numbers = []
        for number in self.strategy.stop():
            key = next((key for key, opened in self._open.items() if opened.request.number == number), None)
            if key is None:
                numbers.append(number)
            else:
                # It has failed already: giving it up means not to retry it.
                self._open.pop(key)
        return numbers


def _key(request: Request) -> Key:
    return request.candidate, request.repeat, request.until_step, request.continues
