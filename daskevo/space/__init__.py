"""Model spaces: what may vary, apart from the model and apart from how it is explored (paper 003, section 3)."""

from __future__ import annotations

from daskevo.space.builder import Builder, Choose
from daskevo.space.candidate import Candidate
from daskevo.space.choice import Choice
from daskevo.space.configurations import (
    candidate_of,
    configuration_of,
    from_configuration_space,
    to_configuration_space,
)
from daskevo.space.matching import Chain, Match, NodePattern, Pattern, Region, named, of_kind, where
from daskevo.space.model_graph import ModelGraph, cell_of
from daskevo.space.model_space import ModelSpace, Pick
from daskevo.space.mutated import MutatedGraphs
from daskevo.space.mutators import InputMutator, InsertingMutator, Mutator, OperatorMutator
from daskevo.space.neighbours import neighbours
from daskevo.space.nodes import Layer, Node, layer
from daskevo.space.product import Space
from daskevo.space.size import UNBOUNDED, Size
from daskevo.space.vectors import from_vectors, to_vectors

__all__ = [
    "UNBOUNDED",
    "Builder",
    "Candidate",
    "Chain",
    "Choice",
    "Choose",
    "InputMutator",
    "InsertingMutator",
    "Layer",
    "Match",
    "ModelGraph",
    "ModelSpace",
    "MutatedGraphs",
    "Mutator",
    "Node",
    "NodePattern",
    "OperatorMutator",
    "Pattern",
    "Pick",
    "Region",
    "Size",
    "Space",
    "candidate_of",
    "cell_of",
    "configuration_of",
    "from_configuration_space",
    "from_vectors",
    "layer",
    "named",
    "neighbours",
    "of_kind",
    "to_configuration_space",
    "to_vectors",
    "where",
]
