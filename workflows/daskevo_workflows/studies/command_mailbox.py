"""Where the orders of works that run in this process are found, so that they can be changed from outside, and answers
given."""

from __future__ import annotations

from daskevo_workflows.studies.room_request import RoomRequest
from daskevo_workflows.studies.stage_commands import Orders, Reply

_orders: dict[str, Orders] = {}
_rooms: dict[str, RoomRequest] = {}


def open_box(key: str, orders: Orders, room: RoomRequest) -> None:
    """Have a work's orders, and what it asks for room with, found by its key."""
    _orders[key] = orders
    _rooms[key] = room


def close_box(key: str) -> None:
    """Forget a work that is over."""
    _orders.pop(key, None)
    _rooms.pop(key, None)


def deliver(key: str, order: str, step: int | None, evaluate: bool) -> Reply:
    """Change a work's orders: ``save`` at one more step, or ``halt`` after a mark; called on the worker's event loop.

    A work that isn't there is over, as everything else waits until it has begun.
    """
    orders = _orders.get(key)
    if orders is None:
        return "passed"
    if order == "halt" or step is None:
        orders.halt(step)
        return "accepted"
    return orders.save(step, evaluate=evaluate)


def copy_now(key: str) -> int | None:
    """Have a work keep a copy after its next step; return the last step it trained, or None if it is over."""
    orders = _orders.get(key)
    return None if orders is None else orders.copy()


def answer_room(key: str, made: bool) -> None:
    """Tell a work whether there is room now for what it could not store; called on the worker's event loop."""
    if (room := _rooms.get(key)) is not None:
        room.answer(made)
