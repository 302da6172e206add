"""Whether a model may be given to ``inherit``: neither compiled nor trained."""

from __future__ import annotations

import keras

from daskevo.errors import ModelNotFresh


def is_fresh(model: keras.Model) -> bool:
    """Whether `model` was neither compiled nor trained.

    ``trainable`` takes effect when a model is compiled: one that already is would go on training what is frozen.
    """
    return not (
        model.compiled or getattr(model, "optimizer", None) is not None or getattr(model, "history", None) is not None
    )


def check_fresh(model: keras.Model) -> None:
    """Raise ModelNotFresh unless `model` is fresh."""
    if not is_fresh(model):
        raise ModelNotFresh(
            f"the model {model.name!r} was compiled or trained already, and freezing layers would have no effect on "
            "it: pass the model as it was built, and compile it after inheriting",
            model=model.name,
        )
