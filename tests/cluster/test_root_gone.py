"""The root folder goes under running providers: who retires a model is told so within the repository's time limit."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import RootUnusable
from tests.cluster.helpers import chain, evo_cluster, make, open_here


def test_to_retire_where_the_root_folder_is_gone(tmp_path: Path) -> None:
    @evo_cluster(providers=2)
    async def run(c: Any, s: Any, *workers: Any) -> None:
        repository = await open_here(c, tmp_path / "root", timeout_s=3)
        await make(repository, chain(8, 6), "m0")
        shutil.rmtree(tmp_path / "root")
        with pytest.raises(RootUnusable, match="Check that the folder is there and mounted") as caught:
            await asyncio.wait_for(repository.retire("m0"), 60)
        assert str(tmp_path / "root") in str(caught.value)

    run()
