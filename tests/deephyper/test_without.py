"""Without DeepHyper: nothing is imported, and what is missing is said."""

from __future__ import annotations

import subprocess
import sys


def test_what_to_install_is_said() -> None:
    code = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] == "deephyper" else super().find_spec(name, path, target)

sys.meta_path = [finder for finder in sys.meta_path if finder is not PathFinder] + [Without]
import daskevo_plugins.deephyper
from daskevo_plugins.deephyper.scheduler_storage import StorageKeeper
from daskevo.errors import InvalidInput
try:
    from daskevo_plugins.deephyper import DaskEvaluator
except InvalidInput as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)
    assert told.stderr == ""
    assert told.stdout == "DaskEvaluator needs DeepHyper, which isn't installed here: pip install deephyper\n"
