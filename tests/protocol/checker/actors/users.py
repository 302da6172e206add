"""What else users do: read a model, hold it, release it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from daskevo.errors import AttemptOver
from daskevo.protocol import messages as ask
from daskevo.protocol import replies as say
from daskevo.protocol import scripts
from daskevo.protocol.holders import Holder
from daskevo.protocol.steps import Begin, Reserve
from daskevo.types import ModelId
from tests.protocol.checker.actors.language import (
    Ask,
    Note,
    Run,
    Script,
    Send,
    Stage,
    begin,
    changed,
    play,
    refer,
    retry,
    script,
    send_to,
)


@script
def read(stage: Stage, holder: Holder, model: ModelId) -> Run:
    """Read a whole model under a reader's attempt."""
    (opened,) = yield [send_to(stage, ask.Open(model))]
    if not isinstance(opened, say.Opened):
        return "gone"

    def instead(step: Any) -> Generator[Any, Any, Any]:
        match step:
            case Begin():
                return (yield from begin(stage, holder, None))
            case Reserve():
                reserved = yield from refer(stage, step)
                if reserved:
                    yield []  # reading
                yield Note("given_back", (step.attempt,))
                return reserved
        return (yield step)

    run = changed(scripts.read(opened.record.owner_map.owners), instead)
    try:
        return "read" if (yield from play(stage, run)) else "gone"
    except AttemptOver:
        return "not live"


@script
def hold(stage: Stage, model: ModelId, label: str) -> Run:
    """Add a label to a model."""
    tick = yield from retry(stage, Ask("tick"))
    if tick is None:
        return "no tick"
    yield Note("issued", (model, label, tick, True))
    answer = yield from retry(stage, send_to(stage, ask.Hold(model, label, tick)))
    return "held" if isinstance(answer, say.Labelled) else "refused"


@script
def release(stage: Stage, model: ModelId, label: str) -> Run:
    """Take a label from a model."""
    tick = yield from retry(stage, Ask("tick"))
    if tick is None:
        return "no tick"
    yield Note("issued", (model, label, tick, False))
    yield from retry(stage, send_to(stage, ask.Release(model, label, tick)))
    return "released"


@script
def release_label(stage: Stage, label: str) -> Run:
    """Take a label from all models of all shards, until each shard has answered."""
    tick = yield from retry(stage, Ask("tick"))
    if tick is None:
        return "no tick"
    yield Note("issued", (None, label, tick, False))
    for shard in range(stage.shards):
        yield from retry(stage, Send(shard, ask.ReleaseLabel(label, tick)), tries=5)
    return "released"


@script
def in_turn(stage: Stage, *scripts: Script) -> Run:
    """One script after the other."""
    outcome = None
    for after in scripts:
        outcome = yield from after.start(stage)
    return outcome
