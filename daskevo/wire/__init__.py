"""Messages between processes: calls to coordinator and providers, framing of tensors, and checks of arguments."""
