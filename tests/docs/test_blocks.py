"""Code of README and docs runs, page by page, in the order in which it stands: one cluster for all pages.

Files that a page has the reader write are written, Python is run, and so are the commands of pages in `COMMANDS`.
"""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, reduce
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import daskevo
from daskevo.deploy.local import local_cluster
from daskevo_workflows import nas, reports
from daskevo_workflows.cli import main
from tests.docs.given import GIVEN, SHORTER
from tests.docs.pages import DOCS, PAGES, ROOT, Code, codes, commands, name_of

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]

EXAMPLES = ROOT / "examples"

COMMANDS = {
    "docs/tutorial.md",
    "docs/problems.md",
    "docs/resume.md",
    "docs/sharing.md",
    "docs/when-transfer-helps.md",
}
"""Pages whose commands are run, too."""

NOT_RUN = {
    "docs/batch.md": "no batch system is here: its calls are held against the signatures",
}
"""Pages whose Python isn't run, and why."""

ELSEWHERE = {
    "docs/trackers.md": "tests/workflows/exporting/test_trackers.py",
}
"""Pages whose Python is run by a test of its own."""

WITHOUT_CLUSTER = {"docs/results.md", "docs/simulation.md", "docs/spaces.md"}
"""Pages whose Python needs no cluster and trains nothing."""

REPORTS = "docs/tutorial.md"
"""The page whose reports are written: drawing those of the others would only take time."""

NEEDS = {"keras_tuner": "KerasTuner"}
"""Packages of others that a block may need: it is left out where they aren't installed."""


class Shared:
    """Stands in for the cluster that a block starts: all have the same one."""

    def __init__(self, start: Callable[[], str]) -> None:
        self.start = start
        self.clients: list[Any] = []

    def __enter__(self) -> Shared:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def address(self) -> str:
        return self.start()

    def get_client(self) -> Any:
        from distributed import Client

        self.clients.append(Client(self.address, set_as_default=False))
        return self.clients[-1]

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.clients.clear()


@pytest.fixture(scope="module")
def address() -> Iterator[Callable[[], str]]:
    """Tells where the cluster is, which is started by the first who asks."""
    with ExitStack() as stack:

        @cache
        def start() -> str:
            return stack.enter_context(local_cluster(trainers=2, dashboard_address=None)).scheduler_address

        yield start


@pytest.fixture
def shared(address: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Shared]:
    cluster = Shared(address)
    real = inspect.signature(daskevo.local_cluster)

    def stand_in(*arguments: Any, **options: Any) -> Shared:
        real.bind(*arguments, **options)
        return cluster

    monkeypatch.setattr(daskevo, "local_cluster", stand_in)
    yield cluster
    cluster.close()


def _no_report(folder: Path, *_: object, **__: object) -> Path:
    return Path(folder) / "report.html"


def _python(code: Code, text: str, names: dict[str, Any]) -> None:
    lines = "\n" * code.line + text
    exec(compile(lines, str(code.page), "exec"), names)


def _call(words: list[str], address: str, model_id: str) -> None:
    words = [model_id if word == "MODEL_ID" else word for word in words]
    if words[0] == "nas":
        words += ["--scheduler", address]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, f"daskevo {' '.join(words)}: {done.output}"


def _best(folder: Path) -> str:
    """Return a model of the run that was begun first in a folder."""
    runs = sorted((path for path in (folder / "runs").glob("*")), key=lambda path: path.stat().st_ctime)
    if not runs:
        return "MODEL_ID"
    import json

    listed = CliRunner().invoke(main, ["models", "ls", str(runs[0]), "--json"])
    return str(json.loads(listed.stdout)[0]["model"])


def _shell(text: str, address: str, folder: Path) -> None:
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["python"]:
            runpy.run_path(str(folder / words[1]), run_name="__main__")
        for call in commands(line):
            _call(call, address, _best(folder))


def _case(page: Path) -> Any:
    quick = name_of(page) in {*WITHOUT_CLUSTER, *NOT_RUN, *ELSEWHERE}
    return pytest.param(page, id=name_of(page), marks=[] if quick else pytest.mark.long)


@pytest.mark.parametrize(
    "page",
    [
        _case(page)
        for page in PAGES
        if name_of(page) in COMMANDS or any(code.language == "python" for code in codes(page))
    ],
)
def test_page(page: Path, shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = name_of(page)
    monkeypatch.chdir(tmp_path)
    if name != REPORTS:
        monkeypatch.setattr(reports, "write_report", _no_report)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    if name in ELSEWHERE:
        assert page.name in (ROOT / ELSEWHERE[name]).read_text()
        return
    if name in NOT_RUN:
        for code in codes(page):
            if code.language == "python":
                check_calls(code.text)
        return
    names: dict[str, Any] = {"__name__": "__main__"}
    shorter = SHORTER.get(name, {})
    used: set[str] = set()
    before: dict[str, Any] = {}
    given = GIVEN.get(name)
    if given is not None:
        before = given(None if name in WITHOUT_CLUSTER else shared.get_client(), tmp_path)
    for code in codes(page):
        names |= before
        text = code.text
        for long in [long for long in shorter if long in text]:
            text = text.replace(long, shorter[long])
            used.add(long)
        if code.file is not None:
            (tmp_path / code.file).write_text(text)
        elif code.language == "python":
            if any(f"import {package}\n" in text and not _is_there(package) for package in NEEDS):
                continue
            _python(code, text, names)
        elif name in COMMANDS:
            _shell(text, shared.address, tmp_path)
    if "study" in before:
        before["study"].close()
    assert used == shorter.keys(), "what is made shorter is no longer on the page"
    if name == "docs/tutorial.md":
        check_disk(tmp_path / "runs" / "first")
    for module in [module for module in sys.modules if (tmp_path / f"{module}.py").exists()]:
        del sys.modules[module]


def _shortened(name: str) -> str:
    """Return an example's program with fewer evaluations."""
    return re.sub(
        r"evaluations=(\d)", lambda found: f"evaluations={int(found[1]) - 3 or 1}", (EXAMPLES / name).read_text()
    )


def _told(name: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run an example as a program; return what it printed."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile(_shortened(name), name, "exec"), names)
    capsys.readouterr()
    names["main"](*words)
    return capsys.readouterr().out


@pytest.mark.long
def test_examples_of_a_model_and_data_of_ones_own(
    shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """07 is searched; 08 looks at its run, and saves its best model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reports, "write_report", _no_report)
    _call(["nas", str(EXAMPLES / "07_own_data.py"), "--evaluations", "2", "--run", "own"], shared.address, "")
    told = _told("08_look.py", capsys, "own", "mine.keras")
    assert "2 evaluations, " in told
    assert "saved: mine.keras" in told
    with zipfile.ZipFile("mine.keras") as file:
        assert "model.weights.h5" in file.namelist()


@pytest.mark.long
def test_example_of_two_searches_that_share_a_repository(
    shared: Shared, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = _told("09_share_repository.py", capsys, str(tmp_path / "shared"))
    assert "first candidate inherited from first-" in told
    assert "still whole after the first run was let go" in told
    assert "verified: True" in told


@pytest.mark.long
def test_example_of_a_notebook(shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cell by cell, as a notebook's kernel does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = re.split(r"^# %%.*$", _shortened("10_notebook.py"), flags=re.M)
    for cell in cells:
        exec(compile(cell, "a cell", "exec"), names)
    assert len(cells) > 8
    assert len(names["frame"]) == 3


def check_disk(run: Path) -> None:
    """Hold what a run takes on the disk against the formula of docs/sizing.md."""
    names: dict[str, Any] = {}
    exec(next(code.text for code in codes(DOCS / "sizing.md") if "def disk_bytes" in code.text), names)
    reports = nas.look(run).reports
    size = {"vertices": max(report.vertices for report in reports), "population": 6}
    said = names["disk_bytes"](max(report.parameters for report in reports), len(reports), **size)
    taken = sum(path.stat().st_blocks * 512 for path in run.rglob("*") if path.is_file() and path.parent != run)
    taken += (run / "run.sqlite").stat().st_size
    assert said / 2 < taken < said


def _is_there(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(package) is not None


def check_calls(text: str) -> None:
    """Hold the calls of a program that can't be run here against the signatures of what it calls.

    Raises
    ------
    AssertionError
        For a name that isn't there or an argument that isn't taken.
    """
    tree = ast.parse(text)
    names: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            exec(compile(ast.Module([node], []), "<imports>", "exec"), names)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        path = ast.unparse(node.func)
        if path.split(".")[0] not in names or not path.replace(".", "").replace("_", "").isalnum():
            continue
        first, *attributes = path.split(".")
        try:
            called = reduce(getattr, attributes, names[first])
            inspect.signature(called).bind(*node.args, **{word.arg: word.value for word in node.keywords if word.arg})
        except (AttributeError, TypeError) as error:
            raise AssertionError(f"{path}: {error}") from error


@pytest.mark.parametrize("call", ["daskevo.open(rot='x')", "daskevo.local_clusters()"])
def test_a_call_that_is_wrong_is_found(call: str) -> None:
    with pytest.raises(AssertionError):
        check_calls(f"import daskevo\n{call}")
