"""What happens, in words: for the traces of violations."""

from __future__ import annotations

from daskevo.protocol.references import numbers_in
from tests.protocol.checker.actors import Ask, Do, Send
from tests.protocol.checker.exhaustive.faults import Choice
from tests.protocol.checker.exhaustive.state import State
from tests.protocol.checker.exhaustive.steps import Steps


def words(system: Steps, state: State, choice: Choice) -> str:
    """Return what happens in words."""
    match choice:
        case ("deliver" | "late" | "double") as kind, index, slot:
            actor = state.actors[index]
            return f"{kind} {_name(system.call(actor, slot))} of {actor.name}"
        case "die", index, slot, records:
            actor = state.actors[index]
            return f"crash after {records} records of {_name(system.call(actor, slot))} of {actor.name}"
        case "arrive", orphan:
            return f"late or again: {_name(system.values.values[orphan])}"
        case "kill", index, sent:
            return f"kill {state.actors[index].name}" + (", what it sent arrives later" if sent else "")
        case "end" | "resume" as kind, index:
            return f"{kind} {state.actors[index].name}"
        case "cut", shard, index:
            stays = f", {state.actors[index].name} stays with the old" if index >= 0 else ""
            return f"shard {shard} gets another owner{stays}"
        case "outlive", shard:
            return f"the coordinator before, which goes on, has shard {shard} closed"
        case "move", shard:
            return f"shard {shard} is handed over"
        case "renew", shard:
            return f"shard {shard} begins to renew its journal"
        case "rewrite", shard, (owner, _), mask:
            return f"shard {shard} begins to write what is alive of {owner} anew: {sorted(numbers_in(mask))}"
        case "crash", shard, kept:
            return f"crash shard {shard}, {kept} unflushed records kept"
    return " ".join(map(str, choice))


def _name(call: Send | Ask | Do) -> str:
    return type(call.message).__name__ if isinstance(call, Send) else call.name
