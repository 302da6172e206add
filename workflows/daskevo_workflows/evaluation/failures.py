"""Turn exceptions of an evaluation into the failure in its report: kind, sentence, end of the traceback."""

from __future__ import annotations

import contextlib
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import daskevo
import daskevo_workflows
from daskevo.errors import (
    CannotFlatten,
    CannotRebuild,
    ClusterError,
    InvalidProblem,
    NotFinite,
    PutFailed,
    QuotaReached,
    RepositoryError,
    UnknownProblem,
)
from daskevo.search import Failure, FailureKind
from daskevo.store.files import FULL

_LIBRARIES = tuple(
    f"{place}/" for place in (sysconfig.get_path("stdlib"), *daskevo.__path__, *daskevo_workflows.__path__)
)
"""Folders of Python's and daskevo's own code; installed packages of others are recognised separately."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""ANSI colours, which Keras writes for terminals."""


class Failed(Exception):
    """An evaluation can't continue; `kind` says why."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def failure_of(error: BaseException) -> Failure:
    """Return the failure that a report holds for an error."""
    trace = "" if isinstance(error, Failed) else _trace(error)
    # Bounded: a report is sent, and kept in the run's record.
    ours = isinstance(error, (Failed, InvalidProblem, NotFinite, UnknownProblem))  # said in full already
    words = str(error)[:2_000] if ours else f"{say_error(error)[:2_000]}{_raised_at(error)}"
    return Failure(_kind(error), words, trace)


def say_error(error: BaseException) -> str:
    """Return type and message of an exception of user code, whose `__str__` may raise as well."""
    try:
        return f"{type(error).__name__}: {_to_the_point(str(error))}"
    except Exception as second:  # noqa: BLE001 - what user code raises may be anything
        return f"{type(error).__name__}, whose message can't be read: its __str__ raised {type(second).__name__}"


@contextlib.contextmanager
def user_code(what: str, *, passing: tuple[type[Exception], ...] = (InvalidProblem,), **facts: Any) -> Iterator[None]:
    """Run user code in this process and turn any exception but KeyboardInterrupt into InvalidProblem.

    Parameters
    ----------
    what:
        The code that runs, as the beginning of a sentence that goes on with "raised".
    passing:
        Errors that are raised unchanged, since they explain themselves.
    **facts:
        Facts of the error.

    Raises
    ------
    InvalidProblem
        For any other exception, SystemExit included.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, *passing)):
            raise
        # A SystemExit passed on would end the process as if all had gone well.
        raise InvalidProblem(f"{what} raised {say_error(error)}{_raised_at(error)}", **facts) from error


def _raised_at(error: BaseException) -> str:
    place = place_of(traceback.extract_tb(error.__traceback__))
    return f" ({place})" if place else ""


def place_of(frames: Sequence[traceback.FrameSummary]) -> str:
    """Return the innermost line of the user's code, outside of Python, installed packages and daskevo; or nothing."""
    for frame in reversed(frames):
        path = Path(frame.filename)
        installed = "site-packages" in path.parts or path.parent == Path(sys.executable).parent
        if path.is_absolute() and not installed and not frame.filename.startswith(_LIBRARIES):
            return f"{path.name}, line {frame.lineno}, in {frame.name}"
    return ""


def _to_the_point(message: str) -> str:
    """Return a message without colours and without the context that Keras and TensorFlow put around it.

    TensorFlow first lists where in the graph the operation was created; Keras appends the arguments of the layer.
    """
    message = _COLOURS.sub("", message)
    if message.startswith("Exception encountered when calling"):
        return " ".join(message.partition("Arguments received by")[0].split())
    if not message.startswith("Graph execution error"):
        return message
    places = ("Graph execution error", "Detected at node", 'File "', "Stack trace for op definition", "[[{{node")
    lines = [line.strip() for line in message.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(places))


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))[-8_000:]
    except Exception:  # noqa: BLE001 - as above
        return f"{''.join(traceback.format_tb(error.__traceback__))[-8_000:]}{say_error(error)}"


def shown(value: object) -> str:
    """Return a value's repr, shortened; the repr of an integer with thousands of digits raises."""
    try:
        return f"{value!r:.60}"
    except Exception:  # noqa: BLE001 - what user code returns may be anything
        return f"a value of type {type(value).__name__} that can't be shown"


def _kind(error: BaseException) -> FailureKind:
    if isinstance(error, Failed):
        return error.kind
    if isinstance(error, (InvalidProblem, UnknownProblem)):
        return "problem"
    if isinstance(error, NotFinite):
        return "not finite"
    if isinstance(error, (CannotFlatten, CannotRebuild)):
        return "flatten"
    # Told apart from other errors of the repository: the run can make room and go on.
    if isinstance(error, QuotaReached) or (isinstance(error, PutFailed) and error.facts.get("errno") in FULL):
        return "no room"
    return "repository" if isinstance(error, (RepositoryError, ClusterError)) else "error"
