"""Keras models: flatten, rebuild, mutate, read and write tensors, freeze. The only room that imports Keras."""

from __future__ import annotations

from daskevo.extras import need, training_packages

need("whatever builds a model", *training_packages())

from daskevo.models.changed import as_it_is
from daskevo.models.finite import check_finite
from daskevo.models.flat import FlatModel
from daskevo.models.flatten import flatten
from daskevo.models.freezing import Freezing, freeze, unfreeze
from daskevo.models.freshness import check_fresh, is_fresh
from daskevo.models.global_state import leaving_no_trace, settings_given_back
from daskevo.models.loaded_weights import given_weights, kept_weights, loaded_weights
from daskevo.models.model_graphs import graph_of, model_of
from daskevo.models.mutated import Mutated
from daskevo.models.rebuild import Rebuilt, check_rebuild, rebuild, rebuild_flat
from daskevo.models.seeds import seeded
from daskevo.models.shape_only import shape_only
from daskevo.models.storable import check_storable
from daskevo.models.tensors import read_tensors, write_tensors
from daskevo.models.training_key import training_key

__all__ = [
    "FlatModel",
    "Freezing",
    "Mutated",
    "Rebuilt",
    "as_it_is",
    "check_finite",
    "check_fresh",
    "check_rebuild",
    "check_storable",
    "flatten",
    "freeze",
    "given_weights",
    "graph_of",
    "is_fresh",
    "kept_weights",
    "leaving_no_trace",
    "loaded_weights",
    "model_of",
    "read_tensors",
    "rebuild",
    "rebuild_flat",
    "seeded",
    "settings_given_back",
    "shape_only",
    "training_key",
    "unfreeze",
    "write_tensors",
]
