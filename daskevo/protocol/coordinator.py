"""State machine of the coordinator: ticks, attempts and their holders, settling, and the shard table.

Models, labels and retirements are kept in shards, not here. So a restarted coordinator needs nothing but the number of
its new generation, with which all attempts of older generations are over.
"""

from __future__ import annotations

from daskevo.protocol.attempts import Attempts
from daskevo.protocol.shard_table import Assignment


class Coordinator(Attempts, Assignment):
    """Turns events into instructions, which the scheduler plugin carries out.

    Its two parts know nothing of each other, except that a shard's opening resumes the settling that waits for it.

    Parameters
    ----------
    generation
        Number of this opening of the repository, higher than all earlier ones.
    shards
        Number of shards of the repository.
    durable
        Whether shards survive their provider, because there is a root.
    """

    def __init__(self, generation: int, shards: int, *, durable: bool = True) -> None:
        Attempts.__init__(self, generation)
        Assignment.__init__(self, generation, shards, durable=durable, tick=self.tick)

    def opened(self, shard: int, name: str) -> bool:
        """Record that a provider serves a shard; False if the shard has been reassigned, and must be closed there."""
        mine = super().opened(shard, name)
        if mine:
            self.resume_settling([shard], self.shards)
        return mine
