"""Choose shards to move between providers: away from leaving ones, and to balance their numbers.

Functions without state: `daskevo.protocol.shard_table` keeps the table, and the scheduler plugin carries out moves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def handed_over(
    serving: Mapping[int, str], load: Mapping[str, int], leaving: Collection[str], takers: Collection[str], most: int
) -> list[tuple[int, str]]:
    """Return up to `most` shards of leaving providers, each with its target, the taker with the fewest shards."""
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
    """Return a shard to move from the provider with the most shards, and the one with the fewest; None if balanced.

    Balancing begins only if the two differ by more than a quarter of the average, so that small differences move
    nothing. Once `begun`, it continues until they differ by one at most.
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
