"""What a shard's provider does with its opening of the shard, when a script of its own asks for it."""

from __future__ import annotations

from daskevo.protocol.replies import Reply
from daskevo.protocol.snapshot import FileView, ShardSnapshot
from tests.protocol.checker.actors import Do
from tests.protocol.checker.servers import Server


def act_on(server: Server, act: Do) -> Reply | ShardSnapshot | bool | None:
    """Let a shard's provider do something with its opening of the shard."""
    match act.name, act.args:
        case "handle", (message,):
            return server.handle(message)[0]
        case "snapshot", ():
            return server.shard.snapshot(tuple(FileView(*segment) for segment in sorted(server.disk.files)))
        case "delete", (segments,):
            server.delete_files(segments)
            return None
        case "write renewed", ():
            server.write_renewed()
            return server.serving
        case "take renewed", ():
            server.take_renewed()
            return None
    raise AssertionError(f"a shard's provider can't {act}")
