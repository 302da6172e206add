"""Benchmarks: each measures a part of daskevo and its rivals in the same run, on the same machine.

Run them from a checkout: ``python -m benchmarks.prefix``, ``.store`` and ``.nas`` take ``--json``, ``--plot`` and
``--quick``; the others say in their docstrings what they take.
"""
