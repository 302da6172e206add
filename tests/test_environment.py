"""environment.yml names the same packages, with the same versions, as pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def _expanded(project: dict[str, object], extra: str) -> set[str]:
    """All requirements of an extra, extras of daskevo itself resolved."""
    found = set()
    for text in project["optional-dependencies"][extra]:  # type: ignore[index]
        requirement = Requirement(text)
        if requirement.name == "daskevo":
            for inner in requirement.extras:
                found |= _expanded(project, inner)
        else:
            found.add(str(requirement))
    return found


def test_environment_equals_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())

    python, pip, inner = environment["dependencies"]
    assert re.sub(r"^python ?", "", python) == project["requires-python"]
    assert pip == "pip"
    wanted = {str(Requirement(text)) for text in project["dependencies"]} | _expanded(project, "all")
    assert {str(Requirement(text)) for text in inner["pip"] if not text.startswith("-e")} == wanted
    assert [text for text in inner["pip"] if text.startswith("-e")] == ["-e ."]


def test_all_leaves_out_only_cuda_and_torch() -> None:
    """`cuda` is no part of `all`, since dask-cuda pins an older dask; `torch` would be gigabytes more."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {extra for text in project["optional-dependencies"]["all"] for extra in Requirement(text).extras}
    assert named == set(project["optional-dependencies"]) - {"all", "cuda", "torch"}
