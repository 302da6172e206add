"""From requests to trials: a candidate that goes on is its trial again, a clone begins one of its own."""

from __future__ import annotations

from typing import NamedTuple

from daskevo.errors import InvalidInput
from daskevo.search import Request
from daskevo.space import Candidate
from daskevo.tuning import Configuration, ConfigurationSpace, Trial, concatenate
from daskevo.types import ModelId

History = tuple[tuple[int, Candidate], ...]
"""Which candidate's hyper-parameters hold from which step on: several for clones of population based training."""


class Line(NamedTuple):
    """How far the training behind a request goes.

    Parameters
    ----------
    trial:
        Its name, configuration and last step.
    start:
        The step from which this request goes on; 0 for one that begins.
    history:
        Whose hyper-parameters hold from where on.
    """

    trial: Trial
    start: int
    history: History


class Lines:
    """The trials of a study.

    Parameters
    ----------
    space:
        Says what candidates stand for.
    """

    def __init__(self, space: ConfigurationSpace) -> None:
        self._space = space
        self._lines: dict[ModelId, Line] = {}

    def __getitem__(self, name: ModelId) -> Line:
        return self._lines[name]

    def add(self, request: Request) -> Line:
        """Take in a request.

        Raises
        ------
        InvalidInput
            If it continues what isn't known or ends before that, if nobody says where it ends, or if a clone has other
            constants or hyper-parameters than what it continues: a model doesn't change on the way.
        """
        until = request.until_step
        if until is None:
            raise InvalidInput(
                f"request {request.number} doesn't say until which step it trains: give the steps of a whole training, "
                "or use a strategy that says them"
            )
        name, start = f"trial-{request.number}", 0
        history: History = ((0, request.candidate),)
        if request.continues is not None:
            before = self._before(request)
            start, history = before.trial.until, before.history
            if until <= start:
                raise InvalidInput(f"request {request.number} ends at step {until}, and continues from step {start}")
            if request.candidate == history[-1][1] and request.parent is None:
                name = before.trial.name
            else:
                history += ((start, request.candidate),)
        line = Line(Trial(name, self._configuration(history), until), start, history)
        self._lines[request.model_id] = line
        return line

    def _before(self, request: Request) -> Line:
        assert request.continues is not None
        before = self._lines.get(request.continues)
        if before is None:
            raise InvalidInput(
                f"request {request.number} continues {request.continues!r}, which this study has not asked for"
            )
        return before

    def _configuration(self, history: History) -> Configuration:
        parts = [(step, self._space.configuration(candidate)) for step, candidate in history]
        first = parts[0][1]
        for step, part in parts[1:]:
            if part.header != first.header:
                raise InvalidInput(
                    f"a clone at step {step} would go on with {part}, and the model was begun with {first}: only the "
                    "values of sequences may change on the way, so let the strategy change no others (the option "
                    "`only` of population based training)"
                )
        return Configuration(
            {
                name: concatenate(sequence, *((step, part.sequences[name]) for step, part in parts[1:]))
                if len(parts) > 1
                else sequence
                for name, sequence in first.sequences.items()
            },
            first.constants,
            first.unit,
        )
