"""What can happen next in a `World`: by itself, and by bad luck."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.protocol.checker.under_way import Action

if TYPE_CHECKING:
    from tests.protocol.checker.world import World


def by_itself(world: World) -> list[Action]:
    """Return what happens next if nothing goes wrong, in the order of its causes."""
    found = [
        Action("open", f"open shard {shard}", partial(world.open, shard))
        for shard, server in enumerate(world.servers)
        if server is None or not server.serving
    ]
    found += [
        Action("deliver", f"deliver {key} {world.name_of(key)}", partial(world.deliver, key)) for key in world.requests
    ]
    found += [Action("answer", f"answer {key}", partial(world.receive, key)) for key in world.responses]
    for actor in world.actors:
        if not actor.done and actor.resting:
            found.append(Action("resume", f"resume {actor.name}", partial(world.resume, actor)))
        elif not actor.done:
            lost = [key for key in actor.waiting if not world.is_under_way(key)]
            found += [
                Action("give up", f"{actor.name}: no answer", partial(world.time_out, actor, key)) for key in lost
            ]
    found += [
        Action("rewrite", f"{name[0]} is written anew", partial(world.rewrite, shard, name, mask))
        for shard, name, mask in world.rewriting
    ]
    return found or [Action("late", f"late: {world.name_of(key)}", partial(world.arrive, key)) for key in world.late]


def by_bad_luck(world: World) -> list[Action]:
    """Return what could go wrong now."""
    found = []
    for key in world.requests:
        name = f"{key} {world.name_of(key)}"
        found.append(Action("lose", f"lose {name}", partial(world.requests.pop, key)))
        found.append(Action("double", f"double {name}", partial(world.deliver, key, keep=True)))
        found.append(Action("delay", f"delay {name}", partial(world.delay, key)))
        found.append(Action("double", f"double {name}, once late", partial(world.delay, key, keep=True)))
        for records in (0, 1):
            if world.requests[key].place >= 0:
                words = f"crash after {records} records of {name}"
                found.append(Action("crash", words, partial(world.deliver, key, die_after=records)))
    found += [Action("late", f"late: {world.name_of(key)}", partial(world.arrive, key)) for key in world.late]
    found += [Action("lose", f"lose answer {key}", partial(world.responses.pop, key)) for key in world.responses]
    for actor in world.actors:
        found += [
            Action("late", f"{actor.name} waits no longer for {key}", partial(world.time_out, actor, key))
            for key in actor.waiting
            if world.is_under_way(key)
        ]
        if actor.holder is not None and not actor.done and world.is_live(actor.holder):
            found.append(Action("end", f"end holder of {actor.name}", partial(world.end_holder, actor.holder)))
        if actor.holder is not None and not actor.done:
            found.append(Action("kill", f"kill {actor.name}", partial(world.kill, actor)))
    for shard in range(world.shards):
        found.append(Action("crash", f"crash shard {shard}", partial(world.crash, shard)))
        found.append(Action("crash", f"crash shard {shard}, one record kept", partial(world.crash, shard, 1)))
        found.append(Action("move", f"shard {shard} is handed over", partial(world.hand_over, shard)))
        found.append(Action("cut off", f"shard {shard} gets another owner", partial(world.open, shard)))
        for which, server in (("", world.servers[shard]), ("the old owner of ", world.old[shard])):
            if server is not None and server.serving:
                found += [
                    Action("renew", f"{which}shard {shard} renews its journal", server.renew),
                    Action("renew", f"{which}shard {shard} dies renewing", partial(world.die_renewing, shard, server)),
                    Action(
                        "rewrite", f"{which}shard {shard} begins to rewrite", partial(world.begin_rewriting, server)
                    ),
                ]
                if which:
                    stalled = partial(server.renew, stalled=True)
                    found.append(Action("renew", f"{which}shard {shard} renews after a long pause", stalled))
        for actor in world.actors:
            if not actor.done:
                words = f"shard {shard} gets another owner, {actor.name} stays with the old"
                found.append(Action("cut off", words, partial(world.cut_off, shard, actor)))
    found.append(Action("restart", "restart the coordinator", world.restart_coordinator))
    return found
