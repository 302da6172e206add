"""Which shards go from one provider to another while both are there: away from who leaves, and evened out.

Pure choices over who serves what; `daskevo.protocol.shard_table` keeps the table, the scheduler's plugin carries them
out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def handed_over(
    serving: Mapping[int, str], load: Mapping[str, int], leaving: Collection[str], takers: Collection[str], most: int
) -> list[tuple[int, str]]:
    """Return up to `most` shards of providers that leave, each with the taker that has the fewest then."""
    loads = {name: load[name] for name in takers}
    found: list[tuple[int, str]] = []
    for shard in sorted(serving):
        if serving[shard] in leaving and loads and len(found) < most:
            target = min(loads, key=lambda name: (loads[name], name))
            loads[target] += 1
            found.append((shard, target))
    return found


def evened_out(
    serving: Mapping[int, str], load: Mapping[str, int], takers: Collection[str], *, begun: bool
) -> tuple[int, str] | None:
    """Return the shard that goes from the provider with the most to the one with the fewest, or None.

    What has `begun` goes on until they differ by one at most; it begins only where they differ by more than a quarter
    of a fair share, so that one shard more or less moves nothing.
    """
    if not takers:
        return None
    loads = {name: load[name] for name in takers}
    most = max(loads, key=lambda name: (loads[name], name))
    least = min(loads, key=lambda name: (loads[name], name))
    bearable = 1.0 if begun else max(1.0, sum(loads.values()) / len(loads) / 4)
    if loads[most] - loads[least] <= bearable:
        return None
    shard = next((shard for shard in sorted(serving) if serving[shard] == most), None)
    return None if shard is None else (shard, least)
