"""The contract of a transport, for ours and for yours: await :func:`check_transport` in a test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from daskevo.errors import CorruptRecord, NotDeployed
from daskevo.protocol.shard_table import ShardTable
from daskevo.wire.transport import NoAnswer, Transport

SPARE_S = 30.0
"""So much later than its time limit may a call end on a busy machine."""


async def check_transport(
    transport: Transport, address: str, *, nowhere: str, limit_s: float = 0.3, spare_s: float = SPARE_S
) -> None:
    """Check what every transport promises; raises AssertionError on the first promise that is broken.

    Parameters
    ----------
    transport:
        Of an open repository with one provider or more; nothing is changed in it.
    address:
        Of a provider.
    nowhere:
        An address that gives no answer: nobody listens, or whoever does says nothing.
    limit_s:
        Time limit of calls there.
    spare_s:
        How much later than that a call may end.
    """
    await _check_values(transport, address)
    await _check_errors(transport, address)
    # Dask answers an operation that it does not know with None, as if the call had succeeded: a transport must raise.
    for unknown in ("provider", "coordinator"):
        await _check_unknown(transport, unknown, address)
    try:
        async with asyncio.timeout(limit_s + spare_s):
            await _fails(
                transport.provider(nowhere, "pulse", timeout_s=limit_s), NoAnswer, "an address that gives no answer"
            )
    except TimeoutError:
        raise AssertionError("a call must end when its time is up") from None
    assert not transport.is_here(nowhere), "nobody is there, so nobody is here"
    # And after all that it still works.
    await _check_values(transport, address)


async def _check_values(transport: Transport, address: str) -> None:
    table = ShardTable.from_wire(await transport.coordinator("table", timeout_s=SPARE_S))
    served = {shard for shard, place in table.places.items() if place is not None and place.address == address}
    pulse = await transport.provider(address, "pulse", timeout_s=SPARE_S)
    assert set(pulse["shards"]) == served, "a call must reach the provider at that address, and bring its answer"
    # Harmless: it asks which attempts are over, and names none.
    over = await transport.coordinator("over", timeout_s=SPARE_S, attempts=[])
    assert list(over) == [], "arguments must reach the coordinator"
    assert isinstance(transport.is_here(address), bool)


async def _check_errors(transport: Transport, address: str) -> None:
    await _fails(
        transport.coordinator("over", timeout_s=SPARE_S, attempts=[["no", "tick"]]),
        CorruptRecord,
        "a typed error of the coordinator",
    )
    # Refused as it is decoded, so nothing is changed by it.
    hostile = [{"kind": "Nothing of that name"}]
    await _fails(
        transport.provider(address, "ask", timeout_s=SPARE_S, shard=0, messages=hostile),
        CorruptRecord,
        "a typed error of a provider",
    )


async def _check_unknown(transport: Transport, role: str, address: str) -> None:
    method = "nothing_of_that_name"
    if role == "coordinator":
        call: Awaitable[Any] = transport.coordinator(method, timeout_s=SPARE_S)
        await _fails(call, NotDeployed, "a method that no coordinator has")
    else:
        await _fails(transport.provider(address, method, timeout_s=SPARE_S), NoAnswer, "a method that no provider has")


async def _fails(call: Awaitable[Any], kind: type[Exception], what: str) -> None:
    try:
        found = await call
    except kind:
        return
    except TimeoutError:
        raise  # of whoever waits here
    except Exception as error:
        raise AssertionError(f"{what} must be a {kind.__name__}, not {type(error).__name__}: {error}") from error
    raise AssertionError(f"{what} must be a {kind.__name__}, not the answer {found!r:.80}")
