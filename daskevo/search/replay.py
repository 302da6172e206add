"""Replay a recorded run: the same candidates, each with its recorded ancestor.

With one trainer the same seed repeats a run. With several, the models available to a candidate depend on which
evaluation ended first; the record holds the resulting ancestors, and this strategy asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daskevo.errors import InvalidInput
from daskevo.search.requests import Report, Request, Stop, View
from daskevo.space import ModelSpace
from daskevo.types import JSON, ModelId, Objective


class Replay:
    """Ask for the finished evaluations of a recorded run, with the ancestors that they inherited from.

    In a run with the same problem, seed and policy, each gives a bit-identical model with any number of trainers. All
    models are kept.

    Parameters
    ----------
    requests, reports:
        Of the recorded run (`Result.requests`, `Result.reports`).

    Raises
    ------
    InvalidInput
        If a model inherited from one that was not trained in the run.
    """

    name = "replay"

    def __init__(self, requests: Sequence[Request], reports: Sequence[Report]) -> None:
        asked = {request.number: request for request in requests}
        finished = {report.model_id: report for report in reports if report.status == "finished"}
        self._steps: dict[ModelId, tuple[Request, ModelId | None]] = {}
        for report in finished.values():
            line = [report]
            # An ancestor's report may have come after its child's, so follow the line of ancestors.
            while (ancestor := _source(asked, line[-1])) is not None and ancestor not in self._steps:
                if ancestor not in finished:
                    began = "inherited from" if asked[line[-1].number].continues is None else "continued"
                    raise InvalidInput(
                        f"{line[-1].model_id} {began} {ancestor}, which the run has not trained: what can be "
                        "replayed is a run that was alone in its repository"
                    )
                line.append(finished[ancestor])
            self._steps.update({one.model_id: (asked[one.number], _source(asked, one)) for one in reversed(line)})

    @property
    def settings(self) -> JSON:
        return {"models": list(self._steps)}

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        self._order = list(self._steps)
        self._made: dict[ModelId, ModelId] = {}

    def ask(self, view: View) -> list[Request] | Stop:
        answer: list[Request] = []
        for name in self._order[view.next_number : view.next_number + view.wanted]:
            wanted, ancestor = self._steps[name]
            if ancestor is not None and ancestor not in self._made:
                if not answer and not view.pending:
                    return Stop("done", f"{name} inherited from {ancestor}, whose training failed in the replay")
                # Its ancestor is being trained. Nobody overtakes it: the number of a request is its place in the order.
                return answer
            source = None if ancestor is None else self._made[ancestor]
            names = ("sequence", "until_step", "training", "repeat")
            fields = {field: getattr(wanted, field) for field in names}
            if wanted.continues is None:
                answer.append(view.request(len(answer), wanted.candidate, ancestor=source, **fields))
            else:
                # What is continued is not inherited as well.
                again = view.request(len(answer), wanted.candidate, ancestor=None, continues=source, **fields)
                answer.append(again)
        return answer or Stop("done", f"all {len(self._order)} evaluations of the recorded run have been asked for")

    def tell(self, request: Request, report: Report) -> None:
        if report.status == "finished":
            self._made[self._order[request.number]] = report.model_id

    def leave(self) -> list[ModelId]:
        return []

    def stop(self) -> list[int]:
        return []

    def population(self) -> Sequence[ModelId]:
        return list(self._made.values())


def _source(asked: Mapping[int, Request], report: Report) -> ModelId | None:
    """Return the model that an evaluation started from: continued, or inherited from."""
    return asked[report.number].continues or report.ancestor
