"""Candidates before submission: ask the strategy, build each model for its graph, and merge equal trainings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from daskevo.errors import CandidateRejected, CannotFlatten, InvalidInput, InvalidProblem
from daskevo.runs import RunRecord, RunState, identity, share
from daskevo.search import Report, Request, Stop, Strategy, View
from daskevo.space import Space
from daskevo.types import ModelId
from daskevo_workflows.evaluation.assignment import in_control_arm
from daskevo_workflows.evaluation.failures import say_error
from daskevo_workflows.evaluation.training import check_training
from daskevo_workflows.execution.alarm import Overdue, alarm
from daskevo_workflows.execution.event_log import note
from daskevo_workflows.execution.request_fields import check_numbers, refuse_fields
from daskevo_workflows.execution.running_task import failed
from daskevo_workflows.execution.search_settings import SearchSettings
from daskevo_workflows.execution.size_limits import outside
from daskevo_workflows.execution.time_limits import build_limit_s
from daskevo_workflows.problems.building import graph_and_key, space_of
from daskevo_workflows.problems.protocol import Problem

SET_BEFORE = "a continued training goes on as it was begun: leave it out, or as it was"


class Candidates:
    """The requests that are not submitted yet.

    Parameters
    ----------
    problem:
        Builds the models.
    strategy:
        Asked for requests.
    record, run_state:
        Of the run.
    settings:
        Which requests inherit weights, and limits of model size.
    under_way:
        Returns the requests that are running on trainers.
    report:
        Called with the reports of requests that need no trainer: duplicates, and models that can't be built.
    """

    def __init__(
        self,
        problem: Problem,
        strategy: Strategy,
        record: RunRecord,
        run_state: RunState,
        settings: SearchSettings,
        under_way: Callable[[], Iterable[Request]],
        report: Callable[[Report], None],
    ) -> None:
        self.ready: deque[Request] = deque()
        """Requests to submit next, in this order."""
        self.graphs: dict[int, Any] = {}
        """Architecture graphs of requests without a report, by number."""
        self.exhausted: str | None = None
        """Why the strategy asks for nothing more; None while it may."""
        self.all_asked = False
        """Whether the strategy asked for nothing when last called: for good, or until it is told more reports."""
        self._problem = problem
        self._space = space_of(problem)
        self._strategy = strategy
        self._record = record
        self._run_state = run_state
        self._settings = settings
        self._build_limit_s = build_limit_s(settings.evaluation_limit_s)
        self._under_way = under_way
        self._report = report
        # `_queue`: not built yet; `_waiting`: number of a request -> number of the equal one that is being evaluated.
        self._queue: deque[Request] = deque()
        self._waiting: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._queue) + len(self.ready)

    def add(self, request: Request) -> None:
        """Add a request that an earlier session asked for."""
        self._queue.append(request)

    def again(self, request: Request) -> None:
        """Submit a request again, before all others."""
        self.ready.appendleft(request)

    def drop(self, number: int) -> None:
        """Drop a request that is not to be evaluated."""
        self._queue = deque(request for request in self._queue if request.number != number)
        self.ready = deque(request for request in self.ready if request.number != number)
        self._waiting.pop(number, None)

    def reported(self, number: int) -> None:
        """Release the requests that waited for this one's report."""
        self.graphs.pop(number, None)
        for waiting in [waiting for waiting, original in self._waiting.items() if original == number]:
            del self._waiting[waiting]
            self._queue.appendleft(self._run_state.requests[waiting])

    def prepare(self, wanted: int) -> bool:
        """Make up to `wanted` more requests ready; return False if there are none just now."""
        if not self._queue and not self._ask(wanted):
            return False
        asked = [self._queue.popleft() for _ in range(min(wanted, len(self._queue)))]
        self.ready.extend(self._share([request for request in asked if self._identify(request)]))
        if any(request.priority for request in self.ready):
            self.ready = deque(sorted(self.ready, key=lambda request: (-request.priority, request.number)))
        return True

    def _ask(self, wanted: int) -> bool:
        wanted = min(wanted, self._run_state.wanted)
        if wanted < 1 or self.exhausted is not None:
            return False
        view = View(
            wanted, self._run_state.next_number, self._record.info.label, self._run_state.asked, self._run_state.pending
        )
        answer = self._strategy.ask(view)
        self.all_asked = isinstance(answer, Stop) or not answer
        if isinstance(answer, Stop):
            self.exhausted = answer.message
            note(self._record, "exhausted", answer.message)
            return False
        if any(request.sequence is not None for request in answer):
            raise InvalidInput(
                f"strategy {self._strategy.name!r} asks for hyper-parameters over time (`sequence`): evaluations train "
                "with those of the problem; leave it None"
            )
        check_numbers(self._strategy, view, answer[:wanted])
        requests = [self._completed(request) for request in answer[:wanted]]
        # Record before anything uses them: a resumed run goes on with the same numbers and model ids.
        self._record.asked(requests)
        self._run_state.ask(requests)
        self._queue.extend(requests)
        return bool(requests)

    def _completed(self, request: Request) -> Request:
        """Return a request with the fields that the run decides: whether it inherits, and its choices.

        Raises
        ------
        InvalidInput
            If it asks for what a search can't do.
        """
        check_training(request.training)
        if request.until_step is not None and "epochs" in request.training:
            raise InvalidInput(
                f"strategy {self._strategy.name!r} has request {request.number} train {request.training['epochs']} "
                f"epochs, and until step {request.until_step}: say one of them"
            )
        if request.until_step is not None and self._settings.transfer.unfreeze_epochs:
            raise InvalidInput(
                f"strategy {self._strategy.name!r} ends request {request.number} at step {request.until_step}, and the "
                "transfer policy trains unfreeze_epochs after that: leave out one of them"
            )
        # Only a Space is in the record in full; for other spaces store the chosen values by name.
        choices = None if isinstance(self._space, Space) else self._space.values(request.candidate)
        if self._settings.unit is not None and request.until_step is None:
            raise InvalidInput(
                f"strategy {self._strategy.name!r} continues trainings, and request {request.number} doesn't say how "
                "far it trains: give it until_step"
            )
        if request.continues is not None:
            return replace(self._continued(request), choices=choices)
        return replace(request, transfer=self._transfers(request), choices=choices)

    def _continued(self, request: Request) -> Request:
        """Return a request that continues an earlier one, trained as that one.

        Raises
        ------
        InvalidInput
            If it can't go on from there.
        """
        known = self._run_state.numbers.get(request.continues or ModelId(""))
        if known is None or self._settings.unit is None:
            raise InvalidInput(
                f"strategy {self._strategy.name!r} continues the training of {request.continues!r}: "
                + (
                    "the run has asked for no such model"
                    if known is None
                    else "a search does that for strategies that are a daskevo.search.Continuing"
                )
            )
        before = self._run_state.requests[known]
        if before.candidate != request.candidate or (request.until_step or 0) <= (before.until_step or 0):
            raise InvalidInput(
                f"strategy {self._strategy.name!r} continues the training of {request.continues} (until step "
                f"{before.until_step}) until step {request.until_step}"
                + ("" if before.candidate == request.candidate else ", with another candidate, whose model is another")
                + ": a search goes on with the same candidate, to a later step"
            )
        changed = {
            name: SET_BEFORE for name in ("training", "repeat") if getattr(request, name) != getattr(before, name)
        }
        refuse_fields(
            self._strategy,
            request,
            changed | {"ancestor": "it goes on with the weights of the model that it continues: leave it None"},
        )
        if before.transfer and not request.transfer:
            raise InvalidInput(
                f"strategy {self._strategy.name!r} sets transfer=False in request {request.number}, which continues "
                f"{request.continues}, and that one may have inherited: {SET_BEFORE}"
            )
        # The control arm is drawn for the whole training.
        return replace(request, ancestor=None, transfer=before.transfer, training=before.training, repeat=before.repeat)

    def _transfers(self, request: Request) -> bool:
        settings = self._settings
        control = in_control_arm(settings.seed, request.number, settings.control_share)
        return request.transfer and settings.transfer.is_any and not control

    def _identify(self, request: Request) -> bool:
        """Build the candidate without weights to know its graph; report a failure and return False if that fails."""
        if request.number in self.graphs:
            return True
        try:
            with alarm(self._build_limit_s):
                graph, key = graph_and_key(self._problem, request.candidate)
        except CannotFlatten as error:
            self._report(failed(request, "flatten", str(error)))
            return False
        except CandidateRejected as error:
            self._report(failed(request, "rejected", f"build() rejects the candidate: {error.reason}"))
            return False
        except InvalidProblem as error:
            self._report(failed(request, "problem", error.message))
            return False
        except KeyboardInterrupt:
            raise
        except Overdue:
            words = f"build() was past its limit of {self._build_limit_s:g} s where its graph was looked at"
            self._report(failed(request, "time limit", words))
            return False
        except BaseException as error:  # noqa: BLE001 - the user's build() may raise anything, SystemExit too
            self._report(failed(request, "build", f"build() raised {say_error(error)}"))
            return False
        if (reason := outside(self._settings.limits, graph)) is not None:
            self._report(failed(request, "rejected", reason))
            return False
        self.graphs[request.number] = graph
        self._run_state.identify(request.number, identity(request, [*graph.ids, key]))
        return True

    def _share(self, requests: Sequence[Request]) -> tuple[Request, ...]:
        """Report duplicates of finished requests, let duplicates of running ones wait, and return the rest."""
        under_way = {
            self._run_state.identities[request.number]: request.number for request in [*self._under_way(), *self.ready]
        }
        sharing = share(requests, self._run_state.identities, self._run_state.done, under_way)
        self._waiting.update(sharing.waiting)
        for number, original in sharing.known.items():
            self._report(self._run_state.duplicate(number, original))
        return sharing.fresh
