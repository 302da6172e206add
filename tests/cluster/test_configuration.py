"""daskevo's part of Dask's configuration: one file has every key that the code reads, and the page explains each."""

from __future__ import annotations

import ast
import functools
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from dask.utils import parse_timedelta

from daskevo.deploy import configuration
from daskevo.deploy.configuration import defaults, keys, unknown, warn_of_unknown

REPO = Path(__file__).parents[2]
SOURCES = [REPO / "daskevo", REPO / "plugins" / "daskevo_plugins", REPO / "workflows" / "daskevo_workflows"]
KEY = re.compile(r"daskevo(\.[a-z]+(-[a-z]+)*)+")
OTHER_NAMES = {"daskevo.plugins", "daskevo.yaml"}
"""A group of entry points, and the file itself."""
FLAT = {key: dask.config.get(key.removeprefix("daskevo."), config=defaults()["daskevo"]) for key in keys(defaults())}


@functools.cache
def _trees() -> dict[str, ast.Module]:
    """Return the parsed modules by their names."""
    return {
        ".".join(path.relative_to(source.parent).with_suffix("").parts): ast.parse(path.read_text())
        for source in SOURCES
        for path in sorted(source.rglob("*.py"))
    }


def _is_module(name: str) -> bool:
    path = REPO.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def _keys_in_code() -> set[str]:
    texts = {
        node.value
        for tree in _trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and KEY.fullmatch(node.value)
    }
    return {text for text in texts if not _is_module(text)} - OTHER_NAMES


def _times_in_code() -> Iterator[tuple[str, float]]:
    """Yield the key and the default of each `seconds(key, default_s)` in the code."""
    for name, tree in _trees().items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) in ("seconds", "configured.seconds")
                and len(node.args) == 2
            ):
                there = vars(importlib.import_module(name))
                key, default = (eval(compile(ast.Expression(part), name, "eval"), there) for part in node.args)  # noqa: S307
                yield key, default


def test_the_file_has_the_keys_that_the_code_reads() -> None:
    assert _keys_in_code() <= set(FLAT)


def test_the_code_reads_the_keys_of_the_file() -> None:
    assert set(FLAT) <= _keys_in_code()


def test_defaults_of_the_file_are_those_of_the_code() -> None:
    found = list(_times_in_code())
    assert {"daskevo.timeout", "daskevo.silent-after"} <= {key for key, _ in found}
    for key, default_s in found:
        assert parse_timedelta(FLAT[key]) == default_s, key


def test_the_page_has_each_key_with_its_default() -> None:
    rows = re.findall(
        r"^\| `(daskevo\.[a-z.-]+)` \| ([^|]+) \| \S", (REPO / "docs" / "configuration.md").read_text(), re.M
    )
    assert dict(rows) == {key: "none" if value is None else str(value) for key, value in FLAT.items()}


def test_the_file_says_what_each_key_means() -> None:
    for line in configuration.FILE.read_text().splitlines():
        if re.match(r" +[a-z-]+:", line):
            assert "  # " in line, line


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    code = (
        "import dask, daskevo.deploy; c = dask.config.get\n"
        "print(c('daskevo.timeout'), c('daskevo.silent-after'), c('daskevo.batch.start-timeout'))"
    )
    (tmp_path / "mine.yaml").write_text("daskevo:\n  silent_after: 21s\n  timeout: 22s\n")
    found = _python(code, tmp_path, DASK_DASKEVO__BATCH__START_TIMEOUT="6 hours", DASK_DASKEVO__TIMEOUT="23s")
    assert (found.stdout, found.stderr) == ("23s 21s 6 hours\n", "")


def test_a_commented_copy_for_the_user(tmp_path: Path) -> None:
    """It is written once, says what is there, and changes nothing."""
    _python("import daskevo.deploy", tmp_path)
    copy = tmp_path / "daskevo.yaml"
    assert "# daskevo:" in copy.read_text()
    assert all(line.startswith("#") for line in copy.read_text().splitlines() if line.strip())
    copy.write_text("daskevo:\n  timeout: 5s\n")
    assert _python("import dask, daskevo.deploy; print(dask.config.get('daskevo.timeout'))", tmp_path).stdout == "5s\n"
    assert copy.read_text() == "daskevo:\n  timeout: 5s\n"


def test_names_that_nobody_reads_are_warned_of_once(tmp_path: Path) -> None:
    code = "import daskevo.deploy.configuration as c; c.warn_of_unknown(); c.warn_of_unknown()"
    (tmp_path / "mine.yaml").write_text("daskevo:\n  silnt-after: 21s\n  batch:\n    start_timeout: 4h\n")
    lines = _python(code, tmp_path).stderr.splitlines()
    assert lines == [
        "daskevo.silnt-after in Dask's configuration is not a setting of daskevo and has no effect; "
        "did you mean daskevo.silent-after?"
    ]


def test_names_that_a_program_sets(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_told", set())
    with dask.config.set({"daskevo.colour": "red"}):
        warn_of_unknown()
    assert "daskevo.colour" in caplog.text
    assert "these are known: daskevo.timeout, " in caplog.text


@pytest.mark.parametrize("odd", [{}, {"daskevo": None}, {"daskevo": {}}, {"daskevo": {"batch": None}}])
def test_nothing_to_warn_of(odd: dict[str, Any]) -> None:
    assert not set(unknown(odd)) - {"daskevo.batch"}


def test_a_configuration_that_is_no_mapping() -> None:
    assert list(unknown({"daskevo": 5})) == ["daskevo"]


@pytest.mark.parametrize(
    ("levels", "shown"),
    [
        ("", ["warning daskevo", "warning daskevo_plugins", "warning daskevo_workflows"]),
        (
            "logging: {daskevo: info}",
            [f"{level} {name}" for name in configuration.PACKAGES for level in ("info", "warning")],
        ),
        ("logging: {daskevo: error, daskevo_plugins: info}", ["info daskevo_plugins", "warning daskevo_plugins"]),
        ("distributed: {logging: {daskevo: error}}", []),
        (
            "logging: {version: 1, disable_existing_loggers: false, loggers: {daskevo: {level: ERROR}}}",
            ["warning daskevo_plugins", "warning daskevo_workflows"],
        ),
    ],
)
def test_one_key_for_the_loggers_of_three_packages(tmp_path: Path, levels: str, shown: list[str]) -> None:
    (tmp_path / "mine.yaml").write_text(levels)
    code = (
        "import daskevo.deploy, logging\n"
        f"for name in {configuration.PACKAGES}:\n"
        "    log = logging.getLogger(name + '.module')\n"
        "    log.info('info %s', name); log.warning('warning %s', name)"
    )
    lines = _python(code, tmp_path).stderr.splitlines()
    assert [line.split(" - ")[-1] for line in lines] == shown


def test_a_cluster_that_silences_dask_does_not_silence_daskevo(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("logging: {daskevo: info}")
    code = (
        "import daskevo.deploy, logging\n"
        "from distributed.utils import silence_logging_cmgr\n"
        "with silence_logging_cmgr('error'):\n"
        f"    for name in {('distributed', *configuration.PACKAGES)}:\n"
        "        logging.getLogger(name + '.module').warning('%s', name)"
    )
    lines = _python(code, tmp_path).stderr.splitlines()
    assert [line.split(" - ")[-1] for line in lines] == list(configuration.PACKAGES)


def _python(code: str, config: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process whose only configuration files are those of a folder."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("DASK_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**plain, "DASK_CONFIG": str(config), "HOME": str(config), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
