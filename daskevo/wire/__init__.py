"""What travels between processes: calls to coordinator and providers, tensors in messages, what a message may hold."""
