"""What benchmarks share: options, tables and JSON of an outcome, timing, waiting until a cluster rests."""
