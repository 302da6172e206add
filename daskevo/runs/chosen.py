"""Option names of recorded candidates, read from the run's record alone, without the problem's code."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from daskevo.errors import CorruptRecord
from daskevo.search import Request
from daskevo.space import Space
from daskevo.types import JSON


class Chosen:
    """Names the options of a run's candidates.

    Parameters
    ----------
    space:
        The space as stored in the run's identity.
    """

    def __init__(self, space: JSON) -> None:
        self.space: Space | None = None
        """The space, if all its candidates have the same choices; otherwise None."""
        # Otherwise each request carries its own choices, or the record is from an older version.
        with contextlib.suppress(CorruptRecord):
            self.space = Space.from_json(space)

    def of(self, request: Request) -> Mapping[str, JSON]:
        """Return choice name -> option.

        Raises
        ------
        CorruptRecord
            If the record does not have them.
        """
        if request.choices is not None:
            return request.choices
        if self.space is None:
            raise CorruptRecord(f"the run's record has no choices of the candidate of {request.model_id}")
        return self.space.values(self.space.decode(request.candidate.to_json()))
