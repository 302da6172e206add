"""What happens around the shards, as scripts: put, read, hold, release, retire, settle, audit - step by step.

Those of `daskevo.protocol.scripts` are run from there (`play`); `mutants` leaves out rules that are switched off.

A script is a generator that touches nothing itself: it yields what it wants done and is sent what came of it, so that
`World` can run it, and `exhaustive` can take it up again from any point of its history.

- a list of calls (`Send`, `Ask`), all sent at once -> their answers, None: none in time; an empty list is a pause
- `Do`: something on its own machine, which no network loses -> its result
- `Note`: what it may rely on from then on, for the promises -> None

What a script has not finished with stands in its locals, also in loops, whose items differ: `exhaustive` compares them.
"""

from __future__ import annotations

from tests.protocol.checker.actors.language import Ask, Behaviour, Call, Do, Note, Run, Script, Send, Stage
from tests.protocol.checker.actors.putting import TENSORS, make_record, put
from tests.protocol.checker.actors.upkeep import audit, move, renew, reopen, retire, rewrite, settle
from tests.protocol.checker.actors.users import hold, in_turn, read, release, release_label

__all__ = [
    "TENSORS",
    "Ask",
    "Behaviour",
    "Call",
    "Do",
    "Note",
    "Run",
    "Script",
    "Send",
    "Stage",
    "audit",
    "hold",
    "in_turn",
    "make_record",
    "move",
    "put",
    "read",
    "release",
    "release_label",
    "renew",
    "reopen",
    "retire",
    "rewrite",
    "settle",
]
