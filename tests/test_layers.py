"""Which room may import which: the table of the architecture, held by reading every import."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {
    "daskevo": ROOT / "daskevo",
    "daskevo_plugins": ROOT / "plugins" / "daskevo_plugins",
    "daskevo_workflows": ROOT / "workflows" / "daskevo_workflows",
}

# Room of daskevo -> rooms of daskevo that it may import. Those of BASE are open to all that stand above them.
BASE = {"errors", "types", "code_identity", "extras"}
ROOMS = {
    "errors": set(),
    "code_identity": set(),
    "types": {"errors"},
    "extras": {"errors"},
    "batch_formats": set(),
    "freeze_policy": {"errors"},
    "graph": BASE,
    "protocol": BASE | {"graph"},
    "index": BASE | {"graph", "protocol"},
    "store": BASE | {"graph", "protocol"},
    "space": BASE | {"graph"},
    "search": BASE | {"graph", "space"},
    "planning": set(),
    "tuning": BASE | {"space", "planning"},
    "runs": BASE | {"graph", "space", "search", "store"},
    "models": BASE | {"freeze_policy", "graph", "protocol", "space"},
    "wire": BASE | {"graph", "protocol", "store"},
    "deploy": BASE | {"protocol", "store", "batch_formats", "wire"},
    "client": BASE | {"graph", "protocol", "index", "store", "wire", "deploy"},
    "provider": BASE | {"graph", "protocol", "index", "store", "wire", "deploy", "client"},
    "offline": BASE | {"graph", "protocol", "index", "store", "wire", "deploy", "client", "provider"},
    "repository": BASE
    | {"freeze_policy", "graph", "protocol", "index", "store", "models", "wire", "deploy", "client", "offline"},
    "testing": BASE
    | {"graph", "protocol", "index", "store", "space", "search", "wire", "deploy", "client", "provider"},
    "__init__": BASE | {"deploy", "repository"},
}
# Package of somebody else -> where it may be imported.
KERAS = {
    "daskevo.models",
    "daskevo_plugins.deephyper.keras_callback",
    *(
        f"daskevo_workflows.{name}"
        for name in (
            "problems",
            "fitting",
            "execution.refine",
            "evaluation",
            "spaces",
            "stage_training",
        )
    ),
}
ON_CLUSTERS = {"wire", "deploy", "client", "provider", "offline"}
DISTRIBUTED = {*(f"daskevo.{room}" for room in ON_CLUSTERS), "daskevo_plugins", "daskevo_workflows"}
RESTRICTED = {
    "keras": KERAS,
    "tensorflow": KERAS,
    "distributed": DISTRIBUTED,
    "dask": DISTRIBUTED,
    "zict": {"daskevo.store"},
    "numba": {"daskevo.index"},
    "hypothesis": {"daskevo.testing"},
    "optuna": {"daskevo.search.optuna_search"},
    "deephyper": {"daskevo_plugins.deephyper"},
    "ConfigSpace": {"daskevo.space.configurations", "daskevo_plugins.deephyper"},
    "dask_cuda": {"daskevo.deploy.dask_cuda_gpus"},
    "click": {"daskevo_workflows.cli"},
    "matplotlib": {"daskevo_workflows.reports", "daskevo_workflows.measurements"},
    "pickle": set(),
    "cloudpickle": set(),
    "marshal": set(),
    "shelve": set(),
}


def _modules() -> Iterator[tuple[str, Path]]:
    for package, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join((package, *parts)), path


def _imports(path: Path, *, types: bool = True) -> Iterator[str]:
    """Every imported module name, wherever in the file it stands; without `types`, what is imported when it runs."""
    tree = ast.parse(path.read_text())
    if not types:
        tree.body = [
            node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _of_types(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


MODULES = dict(_modules())


@pytest.mark.parametrize("module", MODULES)
def test_imports_follow_the_table(module: str) -> None:
    package, *rest = module.split(".")
    room = rest[0]
    for name in _imports(MODULES[module]):
        target = name.split(".")
        if target[0] in SOURCES:
            order = list(SOURCES)
            assert order.index(target[0]) <= order.index(package), f"{module} imports {name}, which stands above it"
            if target[0] == package == "daskevo" and target[1] != room:
                assert target[1] in ROOMS[room], f"{module} imports {name}; {room} may import {sorted(ROOMS[room])}"


@pytest.mark.parametrize("module", MODULES)
def test_foreign_packages_have_their_rooms(module: str) -> None:
    """Signatures may name their types anywhere: an editor follows them, and nothing is imported."""
    for name in _imports(MODULES[module], types=False):
        target = name.split(".")
        if target[0] in RESTRICTED:
            allowed = RESTRICTED[target[0]]
            assert any(f"{module}.".startswith(f"{place}.") for place in allowed), (
                f"{module} imports {name}, which belongs to {sorted(allowed) or 'no room'} alone"
            )


def test_every_room_is_in_the_table() -> None:
    rooms = {module.split(".")[1] for module in MODULES if module.startswith("daskevo.")}
    assert rooms == set(ROOMS)


def test_no_class_name_stands_twice() -> None:
    """Who searches for a class finds one: in an editor, in a traceback, in an answer of a colleague."""
    places = defaultdict(list)
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    assert not {name: modules for name, modules in places.items() if len(modules) > 1}
