"""Argument schemas of all methods of coordinator and provider, checked before a method runs.

These checks are not a defence against attackers: anyone who reaches a Dask cluster can run code on it
(docs/security.md). They keep a message of another version, of a bug, or a damaged one, from being carried out by half
or from allocating memory without bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.protocol.codec import BOOLEAN, Codec, count, numbers_of, optional, sequence, text
from daskevo.protocol.limits import MAX_TENSORS
from daskevo.types import Tick, check_name, shorten

Check = Callable[[Any], object]
"""Raises CorruptRecord or InvalidInput if a value is not valid; its return value is ignored."""

_LARGEST = 2**62
_LONGEST = 1000
"""Most characters of a name, address or reason."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a method: required ones (`needed`) and optional ones (`more`)."""

    needed: Mapping[str, Check] = field(default_factory=dict)
    more: Mapping[str, Check] = field(default_factory=dict)


def check_arguments(role: str, method: str, arguments: Mapping[str, Any]) -> None:
    """Check the arguments of a message against the schema of its method; methods without a schema pass.

    Parameters
    ----------
    role:
        ``provider`` or ``coordinator``.

    Raises
    ------
    CorruptRecord
        If an argument is missing, unknown or not valid; the message names the method, the argument and its value.
    """
    # That each method of a provider and of the coordinator has a schema is held by a test, not here.
    known = ARGUMENTS[role].get(method)
    if known is None:
        return
    lacking, foreign = (
        known.needed.keys() - arguments.keys(),
        arguments.keys() - known.needed.keys() - known.more.keys(),
    )
    if lacking or foreign:
        raise CorruptRecord(
            f"a message {method!r} needs {sorted(known.needed)} and may have {sorted(known.more)}, it has "
            f"{shorten(sorted(map(str, arguments)))}: do all processes run the same daskevo?"
        )
    for name, value in arguments.items():
        try:
            (known.needed.get(name) or known.more[name])(value)
        except (CorruptRecord, InvalidInput) as error:
            raise CorruptRecord(f"a message {method!r} has no good {name!r}: {error.message}") from error


def _list(values: Any) -> None:
    good = isinstance(values, (list, tuple)) and len(values) <= MAX_TENSORS
    _expect(good, f"a list of at most {MAX_TENSORS}", values)


def _list_of(check: Check, most: int = MAX_TENSORS) -> Check:
    return sequence(Codec(check, check), most).decode


def _or_none(check: Check) -> Check:
    return optional(Codec(check, check)).decode


def _row(*checks: Check) -> Check:
    def each(values: Any) -> None:
        _expect(isinstance(values, (list, tuple)) and len(values) == len(checks), f"{len(checks)} values", values)
        for check, value in zip(checks, values, strict=True):
            check(value)

    return each


def _expect(good: bool, what: str, found: object) -> None:
    if not good:
        raise CorruptRecord(f"expected {what}, found {shorten(found)}")


def _seconds(value: Any) -> None:
    # The exact type, since a bool is an int in Python.
    _expect(type(value) in (int, float) and value >= 0, "a number of seconds", value)


def _mapping(value: Any) -> None:
    _expect(isinstance(value, Mapping) and all(type(key) is str for key in value), "a mapping with names", value)


def _versions(value: Any) -> None:
    _mapping(value)
    for word in value.values():
        text(word)


def _key(value: Any) -> None:
    """Check the key of a Dask task: text, a number, or a tuple of these."""
    _expect(value is None or isinstance(value, (str, bytes, int, float, tuple)), "a task's key", value)
    try:
        hash(value)  # a tuple may hold a list, and the coordinator uses keys in dicts
    except TypeError:
        _expect(False, "a task's key", value)


def _bytes(value: Any) -> None:
    _expect(isinstance(value, bytes), "bytes", value)


def _frame(value: Any) -> None:
    """Check bytes of tensors as Dask deserializes them: a uint8 array, or a buffer."""
    plain = isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1
    _expect(plain or isinstance(value, (bytes, bytearray, memoryview)), "bytes of tensors", type(value))


def _part(value: Any) -> None:
    match value:
        case [number, start, stop] if type(number) is type(start) is type(stop) is int:
            if 0 <= number < 2**31 and 0 <= start <= stop < _LARGEST:
                return
    _expect(False, "a part [number, start, stop]", value)


def _word(value: Any) -> None:
    _expect(len(text(value)) <= _LONGEST, f"at most {_LONGEST} characters", value)


def _questions(values: Any) -> None:
    """Check the queries of a batch; the index checks the values of the weights.

    Written as one match statement instead of the combinators above: a batch has hundreds of queries, and the
    combinators take longer than answering some of them.
    """
    _list(values)
    for value in values:
        match value:
            case [bytes(), weights, [*exclude], None | bytes()] if weights is None or isinstance(
                weights, (list, tuple)
            ):
                for model in exclude:
                    text(model)
            case _:
                _expect(False, "a question [ids, weights, models, edges]", value)


def _together(value: Any) -> None:
    _row(text, count, _mapping)(value)
    _expect(value[0] in ("ask", "refer"), "ask or refer", value[0])


_flag = BOOLEAN.decode
_scope: Check = lambda value: check_name(value, "scope")  # noqa: E731
_model: Check = check_name
_attempts = _list_of(Tick.parse)
_shards = _list_of(count, 1 << 16)
_parts = _list_of(_part)
_frames = _list_of(_frame)

_NOTHING = Arguments()
PROVIDER: Mapping[str, Arguments] = {
    "end_part": Arguments({"part": _word}),
    "check": Arguments({"versions": _versions}),
    "open_shards": Arguments(
        {"shards": _shards, "generation": count, "floors": _list_of(_row(count, Tick.parse))},
        {"patience_s": _seconds},
    ),
    "close_shards": Arguments({"shards": _shards, "generation": count}),
    "room": Arguments({"shard": count}),
    "together": Arguments({"calls": _list_of(_together)}),
    "ask": Arguments({"shard": count, "messages": _list_of(_mapping)}),
    "refer": Arguments({"shard": count, "message": _mapping}, {"near": _flag}),
    "read": Arguments({"shard": count, "model": _model, "attempt": Tick.parse, "parts": _parts}),
    "make_room": Arguments(
        {"shard": count, "model": _model, "attempt": Tick.parse, "nbytes": count, "patience_s": _seconds}
    ),
    "land": Arguments(
        {
            "shard": count,
            "model": _model,
            "attempt": Tick.parse,
            # `specs_from_wire` checks the items when it decodes them.
            "specs": _list,
            "parts": _parts,
            "frames": _frames,
        }
    ),
    "put": Arguments({"shard": count, "message": _mapping}, {"parts": _parts, "frames": _or_none(_frames)}),
    "match": Arguments(
        {"scope": _scope, "questions": _questions},
        {"records": _flag, "status": _or_none(_row(count, _model))},
    ),
    "drop_attempts": Arguments({"attempts": _list_of(_row(_or_none(_model), Tick.parse))}),
    "models": Arguments({"scope": _or_none(_scope)}, {"with_snapshots": _flag}),
    "trainings": Arguments({"scope": _scope}),
    "shown": Arguments({}, {"models": count, "live": _attempts}),
    "mark_lost": Arguments({"shard": count, "lost": _list_of(_row(_model, numbers_of, text))}),
    "lineage": Arguments({"shard": count, "models": _list_of(_model)}),
    "lost_of": Arguments({"shard": count, "model": _model}),
    "recount": Arguments({"older_s": _seconds}, {"remove": _flag}),
    "audit": Arguments({}, {"give_up_lost": _flag}),
    "check_segments": Arguments({}, {"mend": _flag}),
    **dict.fromkeys(
        ("sight", "pulse", "go_on_retiring", "forget_lost", "snapshots", "losses", "retirements", "stats"),
        _NOTHING,
    ),
}
"""Methods that a provider serves to other processes; calls in its own process may also pass tensors by reference."""

COORDINATOR: Mapping[str, Arguments] = {
    "hello": Arguments({"versions": _versions, "opener": _word}),
    "equipped": Arguments({"address": _word}),
    "abandon": Arguments({"opener": _word}),
    "close": Arguments({"client": _word, "force": _flag}),
    "join": Arguments({"name": _word, "address": _word}),
    "leave": Arguments({"name": _word, "address": _word, "patience_s": _seconds}),
    "assign": Arguments({"opener": _word, "patience_s": _seconds}),
    "begin": Arguments({"holder": _mapping, "model": _or_none(_model)}, {"key": _key}),
    "end": Arguments({"attempts": _attempts, "settled": _flag}),
    "over": Arguments({"attempts": _attempts}),
    "fenced": Arguments({"shard": count, "provider": _word, "epoch": count, "reason": text}),
    "scope": Arguments({"scope": _scope, "objective": _or_none(_word)}),
    **dict.fromkeys(("facts", "equip", "table", "worker_names", "tick", "stats"), _NOTHING),
}

ARGUMENTS: Mapping[str, Mapping[str, Arguments]] = {"provider": PROVIDER, "coordinator": COORDINATOR}
