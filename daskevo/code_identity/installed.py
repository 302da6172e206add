"""What is installed, with Python or as a package, and the names by which its parts are found."""

from __future__ import annotations

import functools
import importlib.util
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

import numpy as np

OURS = frozenset({"daskevo", "daskevo_plugins", "daskevo_workflows"})

_INSTALLED_AT = tuple({str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib")})


def is_installed(module: str) -> bool:
    """Whether a module belongs to Python or to an installed package, whose code goes by its name."""
    top = module.partition(".")[0]
    if top == "__main__":
        return False  # a script or a notebook; its name says nothing, also where `python -m` of a package runs it
    # daskevo itself may run from a checkout, outside of site-packages.
    if top in OURS or top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return True
    found = sys.modules.get(module) or sys.modules.get(top)
    if found is not None:
        return is_installed_at(getattr(found, "__file__", None))
    try:
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError):
        return False
    return spec is not None and is_installed_at(spec.origin)


@functools.lru_cache(maxsize=4096)
def is_installed_at(file: str | None) -> bool:
    if file is None or file.startswith("<"):
        return False
    path = Path(file).resolve()
    return any(part in ("site-packages", "dist-packages") for part in path.parts) or any(
        path.is_relative_to(place) for place in _INSTALLED_AT
    )


def is_of_c_code(kind: type) -> bool:
    """Whether a class was made by C code, whose objects may hold what no attribute tells."""
    if kind in (types.SimpleNamespace, Exception, BaseException):
        return False
    written = types.WrapperDescriptorType | types.MethodDescriptorType | types.BuiltinFunctionType
    # Bit 9, Py_TPFLAGS_HEAPTYPE, is missing in static classes of C code. Its other classes have it, as Python's do, and
    # are known by their methods, which are written in C.
    return not kind.__flags__ & 1 << 9 or any(isinstance(inside, written) for inside in vars(kind).values())


def installed_name(value: Any) -> str | None:
    """Return the name by which an installed module, class or function is found; None if it isn't."""
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}" if is_installed(value.__name__) else None
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", None))
    if isinstance(value, np.ufunc):
        module = "numpy"
    if not isinstance(module, str) or not isinstance(name, str) or not is_installed(module):
        return None
    if isinstance(value, type) and is_of_c_code(value):
        return f"{module}.{name}"
    found: Any = sys.modules.get(module)
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
    # The name has to lead to this very object: one that was wrapped or replaced goes by its content.
    return f"{module}.{name}" if found is value else None
