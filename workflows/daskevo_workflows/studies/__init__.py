"""Studies: trials whose beginnings are alike are trained together, by trainers of a Dask cluster.

:mod:`daskevo.tuning` decides; what is here asks it, carries out what it says, and keeps account.
"""
