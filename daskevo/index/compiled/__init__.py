"""The compiled core of the prefix index: functions over flat arrays, compiled by numba; imported by `warm` only.

Why numba: it has wheels for every Python that daskevo supports and needs no compiler where daskevo is installed; its
only dependency beside LLVM is numpy, and it is at home wherever Dask is used with numpy.

Modules, each of functions that the next ones use: `layout` (what stands where), `pool` (blocks and lists in one array),
`table` (open-addressing hash tables), `prefetching`, `order` (which model is better), `changing` (add and remove a
model), `cones` (which vertices of a query lie below which), `scoring`, `searching` (answer a query), `entries` (the
functions that Python calls, compiled or taken from the cache on import).
"""

from __future__ import annotations
