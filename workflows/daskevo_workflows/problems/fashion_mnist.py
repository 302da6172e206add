"""Fashion-MNIST: images of clothes, ten classes, at half size and with few samples so that an evaluation takes seconds.

Data: the Debian package dataset-fashion-mnist, or keras.datasets, which downloads it. MIT licence.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daskevo.errors import InvalidInput, InvalidProblem
from daskevo.space import Choice, Space
from daskevo_workflows.problems.cache import Arrays, cached, files_digest
from daskevo_workflows.problems.classification import Classification
from daskevo_workflows.problems.protocol import Data

if TYPE_CHECKING:
    import keras

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
POOLS_AFTER = (1, 3)


class FashionMnist(Classification):
    """Convolutions with skip connections and two poolings, then a dense layer and a softmax.

    Parameters
    ----------
    images:
        Training images drawn; a third as many validate. Both come from the training set, the test set stays untouched.
    pixels:
        Side of an image: 28, or 14 or 7 by averaging.
    filters, kernels, activations:
        Options of a convolution, besides leaving it out.
    layers:
        Number of variable convolutions.
    epochs, batch_size:
        Of one evaluation.
    data_seed:
        Which images are drawn.
    folder:
        Where the four files lie.
    """

    name = "fashion-mnist"
    objective = "max val_accuracy"

    def __init__(
        self,
        images: int = 6_000,
        pixels: int = 14,
        filters: tuple[int, ...] = (8, 16, 24),
        kernels: tuple[int, ...] = (1, 3, 5),
        activations: tuple[str, ...] = ("relu", "swish"),
        layers: int = 5,
        epochs: int = 1,
        batch_size: int = 64,
        data_seed: int = 0,
        folder: str = str(DEBIAN),
    ) -> None:
        if not 30 <= images <= 45_000:
            raise InvalidInput(f"images={images}: use 30 to 45000, a third as many are needed to validate")
        if pixels not in (7, 14, 28):
            raise InvalidInput(f"pixels={pixels}: use 7, 14 or 28")
        self.images = images
        self.pixels = pixels
        self.filters = tuple(filters)
        self.kernels = tuple(kernels)
        self.activations = tuple(activations)
        self.layers = layers
        self.epochs = epochs
        self.batch_size = batch_size
        self.data_seed = data_seed
        self.folder = folder

    def space(self) -> Space:
        convolutions = (
            None,
            *([n, k, activation] for n in self.filters for k in self.kernels for activation in self.activations),
        )
        choices: list[Choice] = []
        for layer in range(self.layers):
            choices.append(Choice(f"conv{layer}", convolutions))
            if layer:
                choices.append(Choice(f"conv{layer}.skip", (False, True)))
            if layer in POOLS_AFTER:
                choices.append(Choice(f"pool{layer}", ("max", "average")))
        choices.append(Choice("dense", (None, 16, 32, 64)))
        return Space("fashion-mnist", tuple(choices))

    def build(self, choices: Mapping[str, Any]) -> keras.Model:
        import keras

        inputs = keras.Input((self.pixels, self.pixels, 1))
        tensor = inputs
        for layer in range(self.layers):
            before = tensor
            node = choices[f"conv{layer}"]
            if node is not None:
                tensor = keras.layers.Conv2D(node[0], node[1], padding="same", activation=node[2])(tensor)
                if choices.get(f"conv{layer}.skip"):
                    same = before.shape[-1] == node[0]
                    tensor = keras.layers.Add()([tensor, before if same else keras.layers.Conv2D(node[0], 1)(before)])
            if layer in POOLS_AFTER:
                maximum = choices[f"pool{layer}"] == "max"
                tensor = (keras.layers.MaxPooling2D if maximum else keras.layers.AveragePooling2D)(2)(tensor)
        tensor = keras.layers.Flatten()(tensor)
        if choices["dense"] is not None:
            tensor = keras.layers.Dense(choices["dense"], activation="relu")(tensor)
        return keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(tensor))

    def data(self) -> Data:
        return _data(self.folder, self.images, self.pixels, self.data_seed)


def _data(folder: str, images: int, pixels: int, seed: int) -> Data:
    settings = {"images": images, "pixels": pixels, "seed": seed, "files": _digest(Path(folder))}
    arrays = cached("fashion-mnist", settings, lambda: prepare(Path(folder), images, pixels, seed))
    x, y = arrays["x"], arrays["y"]
    return Data(train=(x[:images], y[:images]), validation=(x[images:], y[images:]))


def _digest(folder: Path) -> str | None:
    """Return a digest of the files in a folder; None for those that are downloaded, or can't be read."""
    try:
        return files_digest(folder / "train-images-idx3-ubyte.gz", folder / "train-labels-idx1-ubyte.gz")
    except OSError:
        return None


def prepare(folder: Path, images: int, pixels: int, seed: int) -> Arrays:
    """Read, draw, shrink and scale.

    Returns
    -------
    dict
        ``x`` (images * 4/3, pixels, pixels, 1) float32 from 0 to 1, ``y`` labels int32; training images first.
    """
    x, y = read(folder)
    drawn = np.random.default_rng(seed).permutation(len(x))[: images + images // 3]
    side = 28 // pixels
    small = x[drawn].reshape(-1, pixels, side, pixels, side).mean(axis=(2, 4))
    return {"x": (small[..., None] / 255).astype(np.float32), "y": y[drawn].astype(np.int32)}


def read(folder: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the 60,000 training images (n, 28, 28) uint8 and their labels (n,) uint8.

    Raises
    ------
    InvalidProblem
        If there is neither the folder nor a network.
    """
    if folder.is_dir():
        try:
            return read_idx(folder / "train-images-idx3-ubyte.gz"), read_idx(folder / "train-labels-idx1-ubyte.gz")
        except (OSError, EOFError, ValueError, struct.error) as error:
            raise InvalidProblem(f"the images in {folder} can't be read: {error}", path=str(folder)) from error
    try:
        from keras.datasets import fashion_mnist

        (x, y), _ = fashion_mnist.load_data()
    except Exception as error:  # urllib, ssl and keras raise bare Exceptions of many kinds here
        raise InvalidProblem(
            f"Fashion-MNIST is neither in {folder} (Debian: apt install dataset-fashion-mnist) nor could it be "
            f"downloaded ({error})",
            path=str(folder),
        ) from error
    return x, y


def read_idx(path: Path) -> np.ndarray[Any, Any]:
    """Read one file of the MNIST format: unsigned bytes with their shape in front.

    Raises
    ------
    ValueError
        If it is something else, or cut.
    """
    with gzip.open(path) as file:
        zero, kind, axes = struct.unpack(">HBB", file.read(4))
        # Kind 8 is the format's unsigned byte.
        if zero != 0 or kind != 8 or not 1 <= axes <= 4:
            raise ValueError(f"{path.name} is not an IDX file of unsigned bytes")
        shape = struct.unpack(f">{axes}I", file.read(4 * axes))
        return np.frombuffer(file.read(), np.uint8).reshape(shape)
