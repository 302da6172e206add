"""What was promised, as a value, and whether it is kept in a state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from daskevo.protocol.references import mask_of, numbers_in
from daskevo.types import Attempt, ModelId
from tests.protocol.checker.actors import Note
from tests.protocol.checker.exhaustive.canonical import form_of
from tests.protocol.checker.promises import Promises

if TYPE_CHECKING:
    from tests.protocol.checker.exhaustive.state import State
    from tests.protocol.checker.exhaustive.steps import Steps


class View:
    """A state as `Promises` looks at a world."""

    def __init__(self, system: Steps, state: State) -> None:
        self._system = system
        self._coordinator = system.coordinators.get(state.coordinator)
        places = [system.places.get(number) for number in state.places]
        self.servers = [
            None
            if place.current is None
            else SimpleNamespace(number=place.number, shard=system.places.shard(place), disk=place)
            for place in places
        ]

    def home(self, model: ModelId) -> int:
        """Return the shard of a model."""
        return self._system.home(model)

    def there(self, owner: ModelId, numbers: frozenset[int]) -> bool:
        """Whether an owner's tensors can be read."""
        server = self.servers[self.home(owner)]
        assert server is not None
        references = server.shard.state.references
        attempt = references.published.get(owner)
        if not numbers or attempt is None:
            return numbers <= numbers_in(references.there(owner))
        wanted, held = mask_of(numbers), dict(server.disk.rewritten).get((owner, attempt), -1)
        return (owner, attempt) in server.disk.files and not wanted & ~(references.there(owner) & held)

    def is_over(self, attempt: Attempt) -> bool:
        """The coordinator's word."""
        return self._coordinator.over([attempt])[0]


class Pledges:
    """All lists of promises that were found, by number of value."""

    def __init__(self, system: Steps) -> None:
        self._system = system
        self._known: dict[tuple[Any, ...], int] = {}
        self._kept: dict[tuple[tuple[int, ...], int, int], int] = {}

    def none(self) -> int:
        """Return the empty list."""
        return self._add(Promises(cast(Any, None)))

    def noted(self, number: int, noted: int) -> int:
        """Return what a script's note makes of a list."""
        key = (number, noted)
        if key not in self._known:
            promises = self.copy(number)
            note: Note = self._system.values.values[noted]
            getattr(promises, note.name)(*note.args)
            self._known[key] = self._add(promises)
        return self._known[key]

    def answered(self, number: int, sent: int, reply: int) -> int:
        """Return what an answer makes of a list; raises BrokenPromise if home contradicts itself."""
        key = (number, sent, reply)
        if key not in self._known:
            promises = self.copy(number)
            values = self._system.values.values
            promises.answered(values[sent].shard, values[sent].message, values[reply])
            self._known[key] = self._add(promises)
        return self._known[key]

    def check(self, state: State) -> int:
        """Check every promise; return the list without those that need no more to be kept."""
        key = (state.places, state.promises, state.coordinator)
        if key not in self._kept:
            promises = self.copy(state.promises, View(self._system, state))
            pledged = len(promises._reserved)
            promises.check()
            self._kept[key] = state.promises if len(promises._reserved) == pledged else self._add(promises)
        return self._kept[key]

    def copy(self, number: int, world: View | None = None) -> Promises:
        """Return a list of promises about a world."""
        old: Promises = self._system.values.values[number]
        new = Promises(cast(Any, world))
        new._reserved = dict(old._reserved)
        new._verdicts = dict(old._verdicts)
        new._retiring = set(old._retiring)
        new._issued = {key: dict(ticks) for key, ticks in old._issued.items()}
        new._answered = dict(old._answered)
        new._ended = dict(old._ended)
        return new

    def _add(self, promises: Promises) -> int:
        of = promises
        form = form_of((of._reserved, of._verdicts, of._retiring, of._issued, of._answered, of._ended))
        return self._system.values.add(promises, ("promises", *form))
