"""The compiled core of the prefix index: functions over flat arrays, compiled by numba; imported by `warm` only.

Why numba: it has wheels for every Python that daskevo supports and needs no compiler where daskevo is installed; its
only dependency beside LLVM is numpy, and it is at home wherever Dask is used with numpy.

Modules: `compilation`, `blocks` (the layout of the arrays; adding and removing a model), `search` (answering a query),
and `scope`, which calls them from Python.
"""
