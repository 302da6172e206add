"""Does transfer pay? Arms of the same search compared: `python -m benchmarks.transfer --help`."""
