"""A grid whose trials share nothing, and train what they would have trained together, bit for bit."""

from __future__ import annotations

from daskevo.space import Candidate
from daskevo.tuning import Configuration, GridSpace, sequence_from_json
from daskevo.types import JSON


class Alone(GridSpace):
    """The same candidates as those of a grid of sequences, each with a constant of its own, that nobody reads."""

    whose = ""

    @classmethod
    def of(cls, space: GridSpace, whose: str = "") -> Alone:
        """Return a grid's candidates, apart from each other; with `whose`, from those of other studies, too."""
        options = {choice.name: list(map(sequence_from_json, choice.options)) for choice in space.choices}
        alone = cls(space.name, options, unit=space.unit)
        alone.whose = whose
        return alone

    def configuration(self, candidate: Candidate) -> Configuration:
        shared = super().configuration(candidate)
        constants = {**shared.constants, "alone": [self.whose, *candidate.values]}
        return Configuration(shared.sequences, constants, shared.unit)

    def to_json(self) -> JSON:
        return {**super().to_json(), "alone": self.whose or True}
