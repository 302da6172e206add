"""Export trained models as `.keras`, `.weights.h5` or `.safetensors` files, each with a model card.

``export_model(repository, model_id, path)`` writes one; ``result.best(3)[0].export(path)`` is the same for a model of a
search. ``load_safetensors(path)`` makes a model of such a file again, ``read_card(path)`` reads a card's facts.
"""

from __future__ import annotations

from daskevo_workflows.exporting.card import Card, read_card
from daskevo_workflows.exporting.export import Exported, export_model, model_card
from daskevo_workflows.exporting.formats import FORMATS
from daskevo_workflows.exporting.safetensors_files import load_safetensors

__all__ = ["FORMATS", "Card", "Exported", "export_model", "load_safetensors", "model_card", "read_card"]
