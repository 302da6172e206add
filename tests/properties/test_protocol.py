"""Any order of work and faults keeps the protocol's promises; hypothesis looks for the shortest one that does not."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from daskevo.types import ModelId
from tests.protocol.checker import Behaviour, World, actors

MODELS = st.sampled_from([ModelId(name) for name in "abcd"])
LABELS = st.sampled_from(["user:a", "best:r"])


class Protocol(RuleBasedStateMachine):
    """Shards, coordinator and actors of `World`; every promise is checked after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @initialize(shards=st.integers(2, 3), retries=st.integers(1, 2), separate=st.booleans())
    def begin(self, shards: int, retries: int, separate: bool) -> None:
        self.world = World(shards, behaviour=Behaviour(retries=retries, separate_publish=separate))
        self.put(ModelId("a"), None, None, "user:a")
        self.world.settle_down()

    @rule(model=MODELS, ancestor=MODELS, fallback=st.none() | MODELS, label=LABELS)
    def put(self, model: ModelId, ancestor: ModelId | None, fallback: ModelId | None, label: str) -> None:
        holder = self.world.new_holder(f"{model}-{len(self.world.actors)}")
        script = actors.put(
            holder,
            model,
            None if ancestor == model else ancestor,
            None if fallback == model else fallback,
            (label,),
        )
        self.world.spawn(f"put {model}", script, holder)

    @rule(model=MODELS)
    def read(self, model: ModelId) -> None:
        holder = self.world.new_holder(f"reader-{len(self.world.actors)}")
        self.world.spawn(f"read {model}", actors.read(holder, model), holder)

    @rule(model=MODELS, label=LABELS)
    def hold(self, model: ModelId, label: str) -> None:
        self.world.spawn(f"hold {model}", actors.hold(model, label))

    @rule(model=MODELS, label=LABELS)
    def release(self, model: ModelId, label: str) -> None:
        self.world.spawn(f"release {model}", actors.release(model, label))

    @rule(label=LABELS)
    def release_label(self, label: str) -> None:
        self.world.spawn(f"release {label}", actors.release_label(label))

    @rule()
    def audit(self) -> None:
        self.world.audit()

    @rule(choices=st.lists(st.integers(0, 5), min_size=1, max_size=12))
    def go_on(self, choices: list[int]) -> None:
        for choice in choices:
            actions = self.world.actions()
            if actions:
                self.world.act(actions[choice % len(actions)])

    @rule()
    def settle_down(self) -> None:
        self.world.settle_down()

    @rule(data=st.data())
    def fault(self, data: st.DataObject) -> None:
        faults = self.world.faults()
        kind = data.draw(st.sampled_from(sorted({fault.kind for fault in faults})))
        chosen = [fault for fault in faults if fault.kind == kind]
        self.world.act(chosen[data.draw(st.integers(0, len(chosen) - 1))])

    @invariant()
    def heads_recreate_their_states(self) -> None:
        for server in self.world.servers:
            if server is not None:
                self.world.promises.opened(server)

    def teardown(self) -> None:
        self.world.finish()


Protocol.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestProtocol = Protocol.TestCase
