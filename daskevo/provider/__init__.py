"""What a provider does: its shards and their tensors, what it answers, and its work beside all messages."""
