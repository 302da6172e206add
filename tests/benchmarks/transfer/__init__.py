"""Does transfer pay? Arms of the same search compared: `python -m tests.benchmarks.transfer --help`."""
