"""A model space defined by a function that builds a model and makes choices on its way (define-by-run).

Choices may depend on earlier ones: a loop over a chosen number of layers, or an option with further choices. A
candidate is the sequence of its choices with their names; to build its model the function is run again.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

from daskevo.errors import CandidateRejected, InvalidInput
from daskevo.space.candidate import MAX_CHOICES, Candidate
from daskevo.space.choice import Choice, as_lists, check_space_name
from daskevo.space.model_space import ModelSpace, Pick
from daskevo.space.size import Size
from daskevo.types import JSON

if TYPE_CHECKING:
    import keras

COUNTED = 200
"""Maximum number of candidates made one by one to count them."""
TRIED = 20_000
"""Tries after which counting stops, if the function rejects most candidates."""
REMEMBERED = 4096
"""Number of candidates whose choices are cached."""


Chosen = TypeVar("Chosen")


class Choose(Protocol):
    """The function that a builder calls for each choice; returns one of the options."""

    def __call__(self, name: str, options: Sequence[Chosen]) -> Chosen: ...


class Builder(ModelSpace):
    """A space defined by a function.

    Parameters
    ----------
    name:
        A name for people and records.
    build:
        Builds a model, calling ``choose(name, options)`` for each choice. Names are unique within one model, options
        are JSON values. It must depend on nothing else; it may raise :class:`daskevo.errors.CandidateRejected` for
        incompatible choices.
    size:
        The size, if known. None: counted if there are at most 200 candidates, otherwise ``at least`` the number found
        in at most 20,000 tries.
    around:
        Makes a context for running `build` when its model isn't needed, for example one without weights.

    Examples
    --------
    >>> def build(choose):
    ...     layers = choose("layers", (1, 2))
    ...     return [choose(f"units {number}", (8, 16, 32)) for number in range(layers)]
    >>> space = Builder("chains", build)
    >>> str(space.size)
    '12'
    >>> candidate = space.candidate({"layers": 2, "units 0": 32, "units 1": 8})
    >>> space.build(candidate)
    [32, 8]
    """

    # Attributes that only say what was asked so far: no part of what a problem is that holds the space.
    __daskevo_remembers__: ClassVar[frozenset[str]] = frozenset({"_found", "_known", "_next", "_size", "_steps"})

    def __init__(
        self,
        name: str,
        build: Callable[[Choose], Any],
        *,
        size: Size | None = None,
        around: Callable[[], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self.name = check_space_name(name, "space")
        if not callable(build):
            raise InvalidInput(f"space {name!r} is said by a function that takes `choose`, not by {build!r:.80}")
        self._build = build
        self._size = size
        # State of counting: the answers to continue with, and the numbers so far.
        self._next: list[int] | None = []
        self._found = self._steps = 0
        self.around = around
        self._known: OrderedDict[Candidate, tuple[Choice, ...]] = OrderedDict()

    @property
    def size(self) -> Size:
        # As far as counting goes.
        return self._counted(COUNTED)

    def size_until(self, enough: int) -> Size:
        # Counting is limited, and a count that ends below `enough` would not answer the question.
        return self._counted(enough) if enough < COUNTED else self._size or Size("at least", self._found)

    def _counted(self, enough: int) -> Size:
        """Continue counting until more than `enough` are known, there are no more, or too many tries were made."""
        while self._size is None and self._found <= enough:
            assert self._next is not None
            candidate, self._next = self._step(self._next)
            self._found += candidate is not None
            self._steps += 1
            if self._next is None:
                self._size = Size("exact", self._found)
            elif self._found > COUNTED or self._steps == TRIED:
                self._size = Size("at least", self._found)
        return self._size or Size("at least", self._found)

    def find(self, tries: int) -> Candidate | None:
        """Return the first candidate in order that isn't rejected, within `tries`; None if all are."""
        return next((candidate for candidate in islice(self._walk(), tries) if candidate is not None), None)

    def _shaped(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.around is None else self.around()

    def draw(self, pick: Pick) -> Candidate:
        with self._shaped():
            return self._run(pick)[0]

    def build(self, candidate: Candidate) -> keras.Model:
        """Build the model of a candidate.

        Raises
        ------
        InvalidInput
            If the candidate doesn't belong to this space: the function makes other choices.
        CandidateRejected
            If raised by the function.
        """
        return self._run(self._answers(candidate), candidate)[1]

    def choices_of(self, candidate: Candidate) -> tuple[Choice, ...]:
        if candidate not in self._known:
            with self._shaped():
                self._run(self._answers(candidate), candidate)
        # The least recently used are dropped first.
        self._known.move_to_end(candidate)
        return self._known[candidate]

    def _answers(self, candidate: Candidate) -> Pick:
        recorded = iter(zip(candidate.names, candidate.values, strict=False))

        def pick(choice: Choice) -> int:
            name, index = next(recorded, (None, 0))
            if name != choice.name or not 0 <= index < len(choice.options):
                there = "nothing more" if name is None else f"option {index} of {name!r}"
                raise InvalidInput(
                    f"the candidate is not of space {self.name!r}: it takes {there} where the space asks for "
                    f"{choice.name!r} with {len(choice.options)} options"
                )
            return index

        return pick

    def _run(self, pick: Pick, expected: Candidate | None = None) -> tuple[Candidate, Any]:
        recorder = Recorder(self.name, pick)
        made = self._build(recorder)
        candidate = recorder.candidate
        if expected is not None and candidate != expected:
            raise InvalidInput(
                f"the candidate is not of space {self.name!r}: it takes {len(expected.values)} options, and the space "
                f"asks for {len(candidate.values)}"
            )
        self._known[candidate] = tuple(recorder.choices)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return candidate, made

    def _walk(self) -> Iterator[Candidate | None]:
        """Yield every candidate, or None if it is rejected; each run starts from where the previous one differs."""
        following: list[int] | None = []
        while following is not None:
            candidate, following = self._step(following)
            yield candidate

    def _step(self, prefix: list[int]) -> tuple[Candidate | None, list[int] | None]:
        """Return the first candidate that begins with these answers (None if rejected), and the next answers to try.

        After the last candidate these are None.
        """
        recorder, candidate = Recorder(self.name, _following(prefix)), None
        with suppress(CandidateRejected):
            with self._shaped():
                self._build(recorder)
            candidate = recorder.candidate
        # As an odometer counts: drop choices that are at their last option, then advance the one before them.
        taken = recorder.indices
        while taken and taken[-1] + 1 == len(recorder.choices[len(taken) - 1].options):
            taken.pop()
        if not taken:
            return candidate, None
        taken[-1] += 1
        return candidate, taken

    def enumerate(self, most: int = 1_000_000) -> Iterator[Candidate]:
        for number, candidate in enumerate(made for made in self._walk() if made is not None):
            if number == most:
                raise InvalidInput(f"space {self.name!r} has more than the {most} candidates that may be enumerated")
            yield candidate

    def to_json(self) -> JSON:
        """Return name and source of the function, and the choices of its first candidate."""
        recorder = Recorder(self.name, lambda choice: 0)
        try:
            with self._shaped():
                self._build(recorder)
        except CandidateRejected:
            pass  # the choices made before it was rejected are enough
        return {
            "name": self.name,
            "builder": source_digest(self._build),
            "choices": [[choice.name, list(choice.options)] for choice in recorder.choices],
        }


class Recorder:
    """Answers a builder's choices with `pick` and records them.

    Parameters
    ----------
    space:
        Name of the space, for messages.
    pick:
        Returns the index of an option.
    """

    def __init__(self, space: str, pick: Pick) -> None:
        self.choices: list[Choice] = []
        self.indices: list[int] = []
        self._space = space
        self._pick = pick
        self._names: set[str] = set()

    # Not part of `Choose`: a function written for a dict of choices is told what is expected here.
    def __getitem__(self, name: Any) -> Any:
        raise InvalidInput(
            f"space {self._space!r} is said by a function that takes `choose` and calls it, choose({name!r}, options); "
            "for a function that takes a dict of choices give a space, too: space()"
        )

    def __call__(self, name: str, options: Sequence[Chosen]) -> Chosen:
        several = isinstance(options, Iterable) and not isinstance(options, str)
        choice = Choice(name, tuple(options) if several else options)  # type: ignore[arg-type]
        if name in self._names:
            raise InvalidInput(
                f"space {self._space!r} asks for choice {name!r} twice in one candidate; give each its own name, such "
                f"as {name + ' 2'!r}"
            )
        if len(self.choices) == MAX_CHOICES:
            raise InvalidInput(f"space {self._space!r} asks for more than {MAX_CHOICES} choices in one candidate")
        self._names.add(name)
        index = self._pick(choice)
        # Exactly int: numpy's integers would be refused only later, when the candidate is recorded as JSON.
        if type(index) is not int or not 0 <= index < len(choice.options):
            raise InvalidInput(f"choice {name!r} has options 0 to {len(choice.options) - 1}, and not {index!r:.40}")
        self.choices.append(choice)
        self.indices.append(index)
        option = choice.options[index]
        # A copy, so that the user's function can't change the option.
        return cast(Chosen, as_lists(option) if isinstance(option, (list, dict)) else option)

    @property
    def candidate(self) -> Candidate:
        return Candidate(tuple(self.indices), tuple(choice.name for choice in self.choices))


def _following(prefix: Sequence[int]) -> Pick:
    answers = iter(prefix)
    return lambda choice: next(answers, 0)


def source_digest(function: Any) -> str | None:
    """Return a digest of a function's source without comments and layout; None if the source is not available."""
    try:
        # Through the syntax tree, so that comments and layout may change while a run goes on.
        source = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError):
        return None
    return hashlib.sha256(source.encode()).hexdigest()[:32]
