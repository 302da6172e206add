"""Where the orders of works that run in this process are found, so that they can be changed from outside."""

from __future__ import annotations

from daskevo_workflows.studies.orders import Orders, Reply

_orders: dict[str, Orders] = {}


def open_box(key: str, orders: Orders) -> None:
    """Have a work's orders found by its key."""
    _orders[key] = orders


def close_box(key: str) -> None:
    """Forget a work that is over."""
    _orders.pop(key, None)


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
