"""The protocol of ownership as state machines without I/O and clocks: messages, records, shards, coordinator.

Words used throughout: the *home shard* of a model is the one that its id hashes to; it decides the fate of the model's
attempts. An *owner* is a model whose segment stores a tensor. *Bits* are the references that an attempt, or later the
published model, has to tensors of an owner; they are kept in the owner's shard.
"""

from __future__ import annotations
