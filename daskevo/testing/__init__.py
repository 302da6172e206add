"""Contract suites, hypothesis strategies and fault injectors, for daskevo's tests and those of its extensions."""
