"""Catalogues of many models: drawn by chance, or the lineage of a search."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from benchmarks.prefix.space import CELLS, Genome, Model, express, mutate, sample

POPULATION = 100
TOURNAMENT = 10

Kind = Literal["random", "lineage"]


@dataclass(frozen=True)
class Catalogue:
    """Models with ranks, and what is asked.

    Parameters
    ----------
    models:
        All different.
    ranks:
        Of each model, larger is better.
    queries:
        Models that are not in it: drawn by chance, or the next children of the lineage.
    """

    kind: Kind
    models: list[Model]
    ranks: list[float]
    queries: list[Model]


def make(kind: Kind, models: int, queries: int, seed: int = 0) -> Catalogue:
    """Make a catalogue.

    ``random``: each model is drawn by chance. ``lineage``: all models of aged evolution (population 100, tournaments of
    10, one gene changed, or more until the model is a new one), whose fitness is a sum of effects that genes have alone
    and beside their neighbour, and of noise.
    """
    draw = random.Random(seed)
    fitness = _fitness(seed)
    genomes = _lineage(draw, fitness) if kind == "lineage" else _by_chance(draw)
    chosen = list(islice(genomes, models + queries))
    made = [express(genome) for genome in chosen]
    return Catalogue(kind, made[:models], [fitness(genome) for genome in chosen[:models]], made[models:])


def _fitness(seed: int) -> Callable[[Genome], float]:
    def effect(*what: int) -> float:
        return random.Random(hash((seed, *what))).gauss(0, 1)

    effects: dict[tuple[int, ...], float] = {}

    def fitness(genome: Genome) -> float:
        total = 0.0
        for place, gene in enumerate(genome):
            for what in ((place, gene), (place, gene, genome[place - 1] if place < CELLS else 0)):
                if what not in effects:
                    effects[what] = effect(*what)
                total += effects[what]
        return total

    return fitness


def _by_chance(draw: random.Random) -> Iterator[Genome]:
    seen: set[Genome] = set()
    while True:
        genome = sample(draw)
        if genome not in seen:
            seen.add(genome)
            yield genome


def _lineage(draw: random.Random, fitness: Callable[[Genome], float]) -> Iterator[Genome]:
    population: deque[tuple[float, Genome]] = deque(maxlen=POPULATION)
    seen: set[Genome] = set()
    while True:
        if len(population) < POPULATION:
            genome = sample(draw)
        else:
            genome = mutate(draw, max(draw.sample(population, TOURNAMENT))[1])
        while genome in seen:
            genome = mutate(draw, genome)
        seen.add(genome)
        # What an evaluation measures is never quite the same twice.
        population.append((fitness(genome) + draw.gauss(0, 0.5), genome))
        yield genome
