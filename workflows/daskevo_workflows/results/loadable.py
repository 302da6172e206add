"""Check, before a search is resumed, that the installed Keras can load its models."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from daskevo.errors import CannotRebuild, RepositoryError

logger = logging.getLogger(__name__)

LOOKED_AT = 200
"""Maximum number of models checked, of the run and of its scope; the youngest, which are inherited from most."""
_SHOWN = 5


def check_loadable(repository: Any, own: Collection[str]) -> None:
    """Check that the models of a run can be loaded here, and warn about others of its scope that can't.

    Only records written by another version of Keras are read again; this version has already rebuilt its own.

    Parameters
    ----------
    repository:
        A handle with the run's scope.
    own:
        Ids of the models that the run has put; retired ones are ignored.

    Raises
    ------
    CannotRebuild
        If the installed Keras can't load some of the run's own models that another version wrote: they would be ignored
        silently. `models` has their ids. If the record doesn't say which Keras wrote it, there is only a warning, since
        another version may not load it either.
    """
    from daskevo.models import check_rebuild
    from daskevo.models.versions import is_of_running_keras, running_keras, written_by

    living = [model.model_id for model in repository.models(repository.scope)]
    mine = [name for name in living if name in own]
    said: dict[str, str] = {}
    versions: set[str] = set()
    lost: list[str] = []
    seen: dict[str, str] = {}
    for name in dict.fromkeys([*mine[-LOOKED_AT:], *living[-LOOKED_AT:]]):
        try:
            graph = repository.record(name).architecture
        except RepositoryError:
            continue  # lost, or retired meanwhile: `verify` names it
        if is_of_running_keras(graph):
            continue
        # Models of one architecture are rebuilt once.
        if graph.text not in seen:
            seen[graph.text] = ""
            try:
                check_rebuild(graph)
            except CannotRebuild as error:
                # A class that is not registered here may be registered where models are built.
                seen[graph.text] = "" if error.facts.get("unknown") else error.message
        if seen[graph.text]:
            said[name] = seen[graph.text]
            writer = written_by(graph)
            versions.add(f"Keras {writer}" if writer else "an unknown version of Keras")
            if writer is not None and name in own:
                lost.append(name)
    if not said:
        return
    words = "; ".join(f"{name}: {why}" for name, why in list(said.items())[:_SHOWN])
    more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    writers = ", ".join(sorted(versions))
    found = f"Keras {running_keras()} can't load {len(said)} stored models, written by {writers}"
    if lost:
        raise CannotRebuild(
            f"{found}, {len(lost)} of them this run's own: {words}{more}. Go on with the version of Keras that wrote "
            "them, or begin a new run; `daskevo verify --rebuild` names all models",
            models=lost,
        )
    logger.warning("%s, so candidates may inherit little from them. %s%s", found, words, more)
