"""What code and values are made of: one digest for functions, classes and objects, through what they call and read.

Two functions are the same if their code, constants, defaults, closures and the globals that they read are, whatever
they are called and wherever they stand; arrays go by their bytes. What is installed (Python, Keras, numpy, ...) goes by
its name. What can't be looked into (an open file, a connection) is *unknown*: it is not known to equal anything, and
:attr:`Made.unknown` names it. What code reads in ways that nobody sees (``globals()[name]``, files) doesn't count.

Digests are those of one version of Python: code is compared as it runs, and each version compiles it differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from daskevo.code_identity.installed import is_installed
from daskevo.code_identity.keras_parts import with_names_numbered
from daskevo.code_identity.made import Made
from daskevo.code_identity.walk import Walk, own_name

__all__ = ["Made", "digest_of", "is_installed", "made_of", "with_names_numbered"]


def made_of(
    *values: Any, names: Iterable[str] = (), home: str | None = None, state: bool = False, settings: bool = False
) -> Made:
    """Return what functions, classes, modules or other values are made of, all together.

    Parameters
    ----------
    names:
        What to call them in `parts`; by default what they call themselves.
    home:
        Module whose name is left out in `parts`.
    state:
        Whether what functions leave behind while they run counts, too: globals that they assign, attributes of their
        own. Then the digest is that of a moment.
    settings:
        Whether to count globals that only other functions of a module assign, none that is looked into: to these, they
        are settings.

    Examples
    --------
    >>> made_of(lambda x: x + 1).digest == made_of(lambda x: x + 1).digest
    True
    >>> made_of(lambda x: x + 1).digest == made_of(lambda x: x + 2).digest
    False
    """
    called = list(names)

    def walked(left_out: Mapping[int, Set[str]] | None) -> tuple[Walk, Made]:
        walk = Walk(home, state=state, left_out=left_out)
        given = iter(called)
        roots = [walk.part(value, next(given, None) or own_name(value) or "value") for value in values]
        return walk, walk.result(roots)

    walk, made = walked({} if settings else None)
    if settings and walk.assigned:
        # Which globals the code itself assigns is known only at the end of a walk.
        made = walked(walk.assigned)[1]
    return made


def digest_of(value: Any, *, settings: bool = False) -> str | None:
    """Return the digest of one value; None if something in it is unknown: then it is not known to equal anything."""
    made = made_of(value, settings=settings)
    return None if made.unknown else made.digest
