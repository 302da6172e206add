"""What daskevo takes of Dask's and dask-jobqueue's private parts: all of it is there, and nothing else is used."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from distributed import Worker
from distributed.core import ConnectionPool
from distributed.deploy.adaptive import Adaptive
from distributed.deploy.spec import SpecCluster
from distributed.utils_test import gen_cluster

from daskevo.deploy import adaptive, local
from daskevo.deploy.batch import jobs, node_job
from daskevo.deploy.batch.jobqueue_import import jobqueue
from daskevo.wire import dask_private
from daskevo.wire.dask_private import ATTRIBUTES, HEARTBEAT, HOOKS, pages, plots, refusal_of, thread_state

ROOT = Path(__file__).parents[2]
FROM_HERE_ONLY = {
    "json_load_robust",
    "sync",
    "thread_state",
    "WORKER_ANY_RUNNING",
    "NoOpAwaitable",
    "send_recv",
    "template_variables",
    "IndividualPlots",
}
OURS = {local: "SpecCluster", jobs: "JobQueueCluster", node_job: "Job", adaptive: "Adaptive"}
"""Modules with classes that are made of one of Dask's or dask-jobqueue's."""


def base_of(name: str) -> Any:
    core = import_module("dask_jobqueue.core")
    return {"SpecCluster": SpecCluster, "Adaptive": Adaptive}.get(name) or getattr(core, name)


@pytest.mark.parametrize("place", HOOKS)
def test_private_names_of_classes_are_there(place: str) -> None:
    jobqueue()
    module, _, name = place.rpartition(".")
    cls = getattr(import_module(module), name)
    assigned = {name for one in cls.__mro__ if one is not object for name in assigned_by(one)}
    for hook in HOOKS[place]:
        assert hasattr(cls, hook) or hook in assigned, f"{place} has no {hook} any more"


def assigned_by(cls: type) -> Iterator[str]:
    """Yield what the methods of a class assign to `self`."""
    try:
        tree = ast.parse(inspect.getsource(inspect.getmodule(cls) or ModuleType("none")))
    except (OSError, TypeError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            for one in ast.walk(node):
                if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
                    yield one.attr


@pytest.mark.parametrize("module", OURS, ids=lambda module: module.__name__)
def test_our_classes_use_no_others(module: ModuleType) -> None:
    jobqueue()
    base = base_of(OURS[module])
    theirs = {name for cls in base.__mro__ if cls is not object for name in {*vars(cls), *assigned_by(cls)}}
    tree = ast.parse(Path(str(module.__file__)).read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    used |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    private = {name for name in used & theirs if name.startswith("_") and not name.startswith("__")}
    assert private <= {name for names in HOOKS.values() for name in names}


def test_every_name_in_the_table_is_used() -> None:
    text = "".join(Path(str(module.__file__)).read_text() for module in OURS)
    assert [name for names in HOOKS.values() for name in names if name not in text] == []


def test_what_has_no_public_name_is_imported_in_one_place() -> None:
    for folder in ("daskevo", "plugins/daskevo_plugins", "workflows/daskevo_workflows"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.samefile(str(dask_private.__file__)):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in (
                    "distributed",
                    "dask",
                ):
                    private = [
                        alias.name for alias in node.names if alias.name in FROM_HERE_ONLY or alias.name.startswith("_")
                    ]
                    assert not private, f"{path} imports {private} of {node.module}: take them from dask_private"


def is_a_task_s_thread() -> bool:
    from distributed.worker import thread_state as here

    return hasattr(here, "start_time") and here is thread_state


@gen_cluster(client=True, nthreads=[("127.0.0.1", 1)])
async def test_attributes_of_dask_s_objects_are_there(c: Any, s: Any, a: Any) -> None:
    objects = {
        "scheduler": s,
        "worker": a,
        "worker.memory_manager": a.memory_manager,
        "worker.state": a.state,
        "client": c,
        "client.rpc": c.rpc,
    }
    assert objects.keys() == ATTRIBUTES.keys()
    for what, names in ATTRIBUTES.items():
        assert [name for name in names if not hasattr(objects[what], name)] == [], what
    # A task's thread is known by these.
    assert await c.submit(is_a_task_s_thread)
    assert "status" in pages(s)
    assert inspect.isclass(plots())


async def _no_connection(pool: Any, address: str) -> RuntimeError:
    with pytest.raises(RuntimeError) as caught:
        await pool.connect(address, timeout=1)
    return caught.value


@gen_cluster(nthreads=[])
async def test_why_a_pool_makes_no_connection_is_told_by_its_state(s: Any) -> None:
    encrypting = await ConnectionPool(connection_args={"require_encryption": True})
    assert "encryption" in str(await _no_connection(encrypting, s.address))
    assert "encryption" in str(refusal_of(encrypting, s.address))
    assert refusal_of(encrypting, "tls://127.0.0.1:1") is None
    await encrypting.close()
    assert "closed" in str(refusal_of(encrypting, "tls://127.0.0.1:1"))
    pool = await ConnectionPool()
    assert refusal_of(pool, s.address) is None
    await pool.close()
    assert "closed" in str(await _no_connection(pool, s.address))
    assert "closed" in str(refusal_of(pool, s.address))


def test_a_worker_s_heartbeat_has_its_name() -> None:
    source = inspect.getsource(getattr(Worker, HEARTBEAT))
    assert "except OSError" in source
    assert "logger.exception" in source
