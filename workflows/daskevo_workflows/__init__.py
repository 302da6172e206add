"""Pipelines composed from daskevo, importable and runnable."""
