"""Best-match queries over catalogues of models: daskevo's index against its rivals. Needs numba: see `__main__`."""
