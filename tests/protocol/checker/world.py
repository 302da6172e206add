"""The world of the protocol in memory: network, shard servers, coordinator, actors, and every fault as a method.

Nothing happens by itself: `actions` and `faults` name what could happen next, `act` makes it happen. So a schedule is a
list of choices, and any of them can be replayed.
"""

from __future__ import annotations

from typing import Any

from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.holders import ClientHolder, Holder
from daskevo.protocol.messages import Message
from daskevo.protocol.references import Segment, mask_of, numbers_in
from daskevo.protocol.replies import Reply
from daskevo.types import Attempt, ModelId
from tests.protocol.checker import actors
from tests.protocol.checker.actors import Ask, Behaviour, Do, Note, Script, Send
from tests.protocol.checker.happenings import by_bad_luck, by_itself
from tests.protocol.checker.promises import Promises
from tests.protocol.checker.providers import act_on
from tests.protocol.checker.servers import Disk, Server, ServerRules
from tests.protocol.checker.under_way import Action, Actor, Answer, Request, Response


class World:
    """Shards, coordinator, network and actors.

    Parameters
    ----------
    shards
        Number of shards.
    rules
        Rules that servers keep.
    behaviour
        Rules that actors keep.
    coordinator
        Class of the coordinator.
    """

    def __init__(
        self,
        shards: int = 2,
        rules: ServerRules | None = None,
        behaviour: Behaviour | None = None,
        coordinator: type[Coordinator] = Coordinator,
    ) -> None:
        self.shards = shards
        self.rules = rules or ServerRules()
        self.behaviour = behaviour or Behaviour()
        self._coordinator_class = coordinator
        self.disks = [Disk() for _ in range(shards)]
        self.coordinator = coordinator(1, shards)
        self.servers: list[Server | None] = [None] * shards
        self.old: list[Server | None] = [None] * shards
        """The owners before, as far as they don't know it yet."""
        self.rewriting: list[tuple[int, Segment, int]] = []
        """Files that are being written anew: shard, segment, bitmap of what is alive."""
        self.actors: list[Actor] = []
        self.requests: dict[int, Request] = {}
        self.responses: dict[int, Response] = {}
        self.late: dict[int, Request] = {}
        self._next = 0
        self._homes: dict[ModelId, int] = {}
        self._ended: set[Holder] = set()
        self.promises = Promises(self)
        for shard in range(shards):
            self.open(shard)

    # What happens in order.

    def spawn(self, name: str, script: Script, holder: Holder | None = None, server: Server | None = None) -> Actor:
        """Start a script, e.g. ``world.spawn("child", actors.put(holder, ...), holder)``."""
        actor = Actor(name, script.start(self), holder, self.coordinator, server)
        self.actors.append(actor)
        self._advance(actor, None)
        return actor

    def new_holder(self, name: str) -> Holder:
        """Return a holder that the scheduler knows as live."""
        return ClientHolder(f"{name}@{self.coordinator.generation}")

    def is_live(self, holder: Holder) -> bool:
        """What the scheduler says of a holder; a new scheduler knows none of the old one's."""
        generation = holder.client_id.rpartition("@")[2] if isinstance(holder, ClientHolder) else ""
        return holder not in self._ended and generation == str(self.coordinator.generation)

    def home(self, model: ModelId) -> int:
        """Return the shard of a model."""
        if model not in self._homes:
            self._homes[model] = shard_of(model, self.shards)
        return self._homes[model]

    def actions(self) -> list[Action]:
        """Return what happens next if nothing goes wrong, in the order of its causes."""
        return by_itself(self)

    def faults(self) -> list[Action]:
        """Return what could go wrong now."""
        return by_bad_luck(self)

    def act(self, action: Action) -> None:
        """Let an action happen, and check the promises where it can have touched what is stored."""
        action.run()
        if action.kind not in ("answer", "give up"):
            self.promises.check()

    def train(self, actor: Actor) -> None:
        """Let everything happen until an actor trains."""
        while not actor.resting and not actor.done:
            self.act(self.actions()[0])

    def settle_down(self, limit: int = 3000) -> None:
        """Let everything happen that happens by itself, first causes first."""
        for _ in range(limit):
            actions = self.actions()
            if not actions:
                return
            self.act(actions[0])
        raise AssertionError(f"still busy after {limit} steps: {[action.words for action in self.actions()]}")

    def finish(self) -> None:
        """End everything, settle, audit, look; then release all labels, audit, and look whether anything is left."""
        self.settle_down()
        for actor in list(self.actors):
            if actor.holder is not None and self.is_live(actor.holder):
                self.end_holder(actor.holder)
        self.settle_down()
        for check, labels in (
            (self.promises.check_at_rest, set()),
            (self.promises.check_empty, self.promises.labels()),
        ):
            for label in sorted(labels):
                self.spawn(f"release {label}", actors.release_label(label))
            # Twice: what the first audit aborts or retires, the second finds unused.
            for _ in range(2):
                self.settle_down()
                self.audit()
            self.settle_down()
            check()

    # The network.

    def deliver(self, key: int, *, keep: bool = False, die_after: int | None = None) -> None:
        """A request arrives (and stays under way, if it is doubled)."""
        request = self.requests[key] if keep else self.requests.pop(key)
        self._arrives(key, request, die_after)

    def delay(self, key: int, *, keep: bool = False) -> None:
        """A request (or a copy of it) will arrive when nobody waits for it any more."""
        self.late[key] = self.requests[key] if keep else self.requests.pop(key)

    def arrive(self, key: int) -> None:
        """A late request arrives after all."""
        self._arrives(key, self.late.pop(key))

    def receive(self, key: int) -> None:
        """An answer arrives."""
        response = self.responses.pop(key)
        self._answer(response.actor, response.request, response.answer)

    def time_out(self, actor: Actor, key: int) -> None:
        """An actor waits no longer; what is under way may still arrive."""
        actor.disturbed = True
        self._answer(actor, key, None)

    def resume(self, actor: Actor) -> None:
        """An actor goes on after its training or pause."""
        actor.resting = False
        self._advance(actor, None)

    # Shards, coordinator and holders.

    def open(self, shard: int) -> None:
        """A provider opens a shard; its former owner, if it lives, is cut off from then on."""
        old = self.servers[shard]
        if old is not None and old.serving:
            self._disturb_all()
        server = Server(self.disks[shard], shard, self.coordinator.generation, self.rules)
        self.servers[shard] = server
        self.old[shard] = old
        self.promises.opened(server)
        for retirement in server.shard.retiring():
            self.spawn(f"retire {retirement.model}", actors.retire(retirement), server=server)
        self.coordinator.resume_settling()
        if self.coordinator.unsettled():
            self.spawn("settle", actors.settle())

    def cut_off(self, shard: int, actor: Actor) -> None:
        """A shard gets another owner, while an actor still talks to the old one, which knows nothing of it."""
        old = self.servers[shard]
        if old is not None:
            actor.stays_with[shard] = old
        self.open(shard)

    def die_renewing(self, shard: int, server: Server) -> None:
        """A server dies when it has written the journal that it would have gone on in."""
        if server.check():
            server.write_renewed()
        if server is self.servers[shard]:
            self.crash(shard)
        server.serving = False

    def begin_rewriting(self, server: Server) -> None:
        """A provider begins to write the files of a shard anew; they take the old ones' names at any later time."""
        half_dead = server.half_dead()
        if half_dead and server.allow_rewriting():
            self.rewriting += [(server.number, segment, mask) for segment, mask in half_dead.items()]

    def rewrite(self, shard: int, segment: Segment, mask: int) -> None:
        """A file written anew takes its name, whoever owns the shard by now, and whether or not there is one."""
        self.rewriting.remove((shard, segment, mask))
        self.disks[shard].files.add(segment)
        self.disks[shard].rewritten[segment] = mask

    def hand_over(self, shard: int) -> None:
        """A shard's owner writes what it has and closes it, and another opens it: no cause for anyone to fail.

        In one step, since whoever meets nobody in between sends again.
        """
        server = self.servers[shard]
        if server is not None and server.serving:
            server.journal.flush()
            server.serving = False
        self.open(shard)

    def crash(self, shard: int, kept: int = 0) -> None:
        """A server dies; of what it had not flushed, the first `kept` records had been written."""
        server = self.servers[shard]
        if server is not None:
            server.serving = False
        self.servers[shard] = None
        self.disks[shard].lose_unflushed(kept)
        self._disturb_all()

    def restart_coordinator(self) -> None:
        """A new coordinator under a new generation: it knows nobody; shards are opened again one by one."""
        self.coordinator = self._coordinator_class(self.coordinator.generation + 1, self.shards)
        self._disturb_all()
        for shard in range(self.shards):
            self.spawn(f"reopen {shard}", actors.reopen(shard))

    def end_holder(self, holder: Holder) -> None:
        """A task run or client ends, says the scheduler; its thread may go on."""
        self._ended.add(holder)
        for actor in self.actors:
            if actor.holder == holder:
                actor.disturbed = True
        if self.coordinator.holder_ended(holder):
            self.spawn("settle", actors.settle())

    def kill(self, actor: Actor) -> None:
        """An actor stops where it is, and its holder ends."""
        actor.done, actor.outcome = True, "killed"
        if actor.holder is not None and self.is_live(actor.holder):
            self.end_holder(actor.holder)

    def audit(self) -> None:
        """Start an audit of every shard."""
        for shard, server in enumerate(self.servers):
            if server is not None:
                self.spawn(f"audit {shard}", actors.audit(), server=server)

    # Inside.

    def _arrives(self, key: int, request: Request, die_after: int | None = None) -> None:
        answer: Answer
        if isinstance(request.call, Ask):
            answer = self._ask(request.call)
        else:
            server = request.actor.stays_with.get(request.place)
            if server is None or not server.serving:
                server = self.servers[request.place]
            up = server is not None and server.serving
            answer = self._serve(server, request.call.message, die_after) if server is not None and up else None
        if answer is not None:
            self._next += 1
            self.responses[self._next] = Response(key, request.actor, answer)

    def _serve(self, server: Server, message: Message, die_after: int | None) -> Reply | None:
        reply, effects = server.handle(message, die_after)
        if die_after is not None:
            self._disturb_all()
        for effect in effects:
            for retirement in effect.retire:
                self.spawn(f"retire {retirement.model}", actors.retire(retirement), server=server)
        if reply is not None:
            self.promises.answered(server.number, message, reply)
        return reply

    def _ask(self, call: Ask) -> Answer:
        match call.name, call.args:
            case "begin", (holder, model):
                return self.coordinator.begin(holder, model, live=self.is_live(holder)) or "not live"
            case "end", (attempt, settled):
                self.coordinator.end(attempt, settled=settled)
                if not settled:
                    self.spawn("settle", actors.settle())
                return "ended"
            case "over", (attempts,):
                return self.coordinator.over(attempts)
            case "tick", ():
                return self.coordinator.tick()
        raise AssertionError(f"the coordinator can't be asked {call}")

    def _perform(self, actor: Actor, act: Do | Note) -> Any:
        if isinstance(act, Note):
            return getattr(self.promises, act.name)(*act.args)
        server = actor.server
        match act.name, act.args:
            case "write", (shard, segment):
                self.disks[shard].rewritten.pop(segment, None)
                return self.disks[shard].files.add(segment)
            case "withdraw", (shard, segment):
                return self.disks[shard].files.discard(segment)
            case "open", (shard,):
                return self.open(shard)
            case "reopen", (shard,):
                there = self.servers[shard]
                if there is None or there.shard.state.generation < self.coordinator.generation:
                    self.open(shard)
                return None
            case "take settling", ():
                return actor.coordinator.take_settling()
            case "postpone", (due,):
                return actor.coordinator.postpone(due)
            case "settled", (due,):
                return actor.coordinator.settled(due)
        assert server is not None
        return act_on(server, act)

    def _advance(self, actor: Actor, answers: list[Answer] | None) -> None:
        try:
            calls = actor.script.send(answers)
            while True:
                if actor.server is not None and not actor.server.serving:
                    # Who runs at a provider ends with it.
                    actor.done = True
                    return
                if not isinstance(calls, (Do, Note)):
                    break
                calls = actor.script.send(self._perform(actor, calls))
        except StopIteration as stop:
            actor.done, actor.outcome = True, stop.value
            self.promises.finished(actor)
            return
        actor.resting = not calls
        actor.answers = [None] * len(calls)
        actor.waiting = {}
        for slot, call in enumerate(calls):
            self._next += 1
            place = -1 if isinstance(call, Ask) else call.shard
            self.requests[self._next] = Request(call, actor, place)
            actor.waiting[self._next] = slot

    def _answer(self, actor: Actor, key: int, answer: Answer) -> None:
        slot = actor.waiting.pop(key, None)
        if slot is None or actor.done:
            return
        actor.answers[slot] = answer
        if not actor.waiting:
            self._advance(actor, actor.answers)

    def is_under_way(self, key: int) -> bool:
        """Whether a message or its answer may still come by itself."""
        return key in self.requests or any(response.request == key for response in self.responses.values())

    def _disturb_all(self) -> None:
        for actor in self.actors:
            actor.disturbed = True

    def name_of(self, key: int) -> str:
        """Return what a message is called in a schedule."""
        request = self.requests.get(key) or self.late[key]
        what = type(request.call.message).__name__ if isinstance(request.call, Send) else request.call.name
        return f"{what} of {request.actor.name}"

    def there(self, owner: ModelId, numbers: frozenset[int]) -> bool:
        """Whether an owner's tensors can be read: known to its shard as stored, and in its segment file."""
        server = self.servers[self.home(owner)]
        assert server is not None
        references = server.shard.state.references
        attempt = references.published.get(owner)
        stored = numbers_in(references.there(owner))
        if not numbers or attempt is None:
            return numbers <= stored
        key = (owner, attempt)
        kept = server.disk.rewritten.get(key, -1)
        return numbers <= stored and key in server.disk.files and not mask_of(numbers) & ~kept

    def is_over(self, attempt: Attempt) -> bool:
        """The coordinator's word."""
        return self.coordinator.over([attempt])[0]
