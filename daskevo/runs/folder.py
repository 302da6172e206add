"""A run's folder and its `run.json`, which describes the run and names its repository."""

from __future__ import annotations

import json
import re
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from daskevo.errors import RunFolderUnusable, RunMismatch
from daskevo.runs.full_disk import needs_room
from daskevo.runs.not_a_run import RESTORE
from daskevo.store.files import replace_file
from daskevo.types import JSON, check_path

FORMAT = "daskevo run"
VERSION = 1


class Parts(dict[str, JSON]):
    """A part of a run's description; a key that is missing raises an error about the damaged file."""

    def __init__(self, parts: Mapping[str, JSON], path: Path) -> None:
        super().__init__(parts)
        self._path = path

    def __missing__(self, name: str) -> JSON:
        raise RunFolderUnusable(
            f"{self._path} says nothing of the run's {name}: it is not what daskevo wrote; {RESTORE}",
            path=str(self._path),
        )


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The description of a run, as stored in `run.json`.

    Parameters
    ----------
    id:
        UUID of the run.
    name:
        The folder's name, with characters that model ids don't allow replaced.
    created:
        Seconds since the epoch.
    identity:
        Problem (name, content hash, settings), space, objective, seed, strategy with settings, policy.
    about:
        Further facts: root and id of the run's repository (the root may move, the id stays), its scope, versions, and
        the run's own folder in the last session.
    """

    id: str
    name: str
    created: float
    identity: Mapping[str, JSON]
    about: Mapping[str, JSON]

    @property
    def label(self) -> str:
        """The run's name in labels and model ids, unique even if many runs share the repository."""
        return f"{self.name}-{self.id[:8]}"

    def to_json(self) -> JSON:
        return {
            "format": FORMAT,
            "version": VERSION,
            "id": self.id,
            "name": self.name,
            "created": self.created,
            "identity": dict(self.identity),
            "about": dict(self.about),
        }


def new_info(folder: Path, identity: Mapping[str, JSON], about: Mapping[str, JSON]) -> RunInfo:
    """Create the description of a new run."""
    # 60 characters, because the run's id and a request's number follow in model ids, which have 100 at most.
    name = re.sub(r"[^A-Za-z0-9._-]", "-", folder.resolve().name)[:60].strip("-._") or "run"
    return RunInfo(str(uuid.uuid4()), name, time.time(), identity, {**about, "folder": str(folder.resolve())})


def read_info(folder: Path) -> RunInfo | None:
    """Read `run.json`; None if the folder holds no run.

    Raises
    ------
    RunFolderUnusable
        If it can't be read, or is of another format or version.
    """
    path = folder / "run.json"
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        # First, for a better advice: another format or an older version is no matter of updating.
        if value["format"] == FORMAT and type(value["version"]) is int and value["version"] > VERSION:
            raise RunFolderUnusable(
                f"{path} was written by a later version of daskevo: it has version {value['version']}, this one reads "
                f"{VERSION}. Use a daskevo that reads it, or another folder",
                path=str(path),
            )
        if value["format"] != FORMAT or value["version"] != VERSION:
            raise RunFolderUnusable(
                f"{path} is of format {value['format']!r:.60}, version {value['version']!r:.60}; this daskevo reads "
                f"{FORMAT!r}, version {VERSION}: use the daskevo that wrote it, or another folder",
                path=str(path),
            )
        return RunInfo(
            str(uuid.UUID(value["id"])),
            str(value["name"]),
            _moment(value["created"]),
            Parts(dict(value["identity"]), path),
            Parts(dict(value["about"]), path),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RunFolderUnusable(f"{path} can't be read: {error.strerror}", path=str(path)) from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise RunFolderUnusable(
            f"{path} is not what daskevo wrote ({type(error).__name__}: {error}); restore it, or use another folder",
            path=str(path),
        ) from error


def _moment(value: float) -> float:
    """Return a time in seconds since the epoch, if it is a plausible one."""
    created = float(value)
    if not 0 <= created < 1e11:
        raise ValueError(f"it was made at {created} s, which is no moment")
    return created


def write_info(folder: Path, info: RunInfo) -> None:
    """Write `run.json` atomically: it is there in full or not at all."""
    data = json.dumps(info.to_json(), indent=1, allow_nan=False).encode()
    replace_file(folder / "run.json", data, sync=True)


def prepare_folder(folder: Path) -> None:
    """Create the folder if it doesn't exist, and check that it can be written.

    Raises
    ------
    RunFolderUnusable
    InvalidInput
        If its path is not UTF-8 text.
    """
    check_path(folder.absolute(), "run's folder")
    try:
        with needs_room(folder):
            folder.mkdir(parents=True, exist_ok=True)
            # Tried: permission bits say nothing of read-only mounts, and root may pass them all.
            with tempfile.TemporaryFile(dir=folder):
                pass
    except OSError as error:
        raise RunFolderUnusable(
            f"the run's folder {folder} can't be used: {error.strerror or error}; name a folder that you may write to",
            path=str(folder),
        ) from error


def check_repository(folder: Path, found: Mapping[str, JSON], asked: Mapping[str, JSON]) -> None:
    """Check that a run continues with its own repository: its models and labels exist only there.

    Parameters
    ----------
    found, asked:
        ``about`` of the run and of the call: ``repository`` is the root (None: in memory), ``repository_id`` the id.

    Raises
    ------
    RunMismatch
        The message names both.
    """
    if "repository" not in found or "repository" not in asked:
        return
    # Prefer the id: a repository may have been moved, or another one put in its place.
    name = "repository_id" if "repository_id" in found and "repository_id" in asked else "repository"
    if found[name] != asked[name]:
        raise RunMismatch(
            f"the run in {folder} belongs to {_say_repository(found)}, not to {_say_repository(asked)}; "
            "go on with the run's own, or use another folder for a new run",
            path=str(folder),
            parts=["repository"],
        )


def _say_repository(about: Mapping[str, JSON]) -> str:
    root = about["repository"]
    if root is None:
        return "a repository in memory"
    name = about.get("repository_id", "")
    return f"repository {root} ({'where none is' if name is None else name})" if name != "" else f"repository {root}"


def copied_from(folder: Path, info: RunInfo, root: JSON) -> Path | None:
    """Return the original's folder if the run in `folder` is a copy that would use its repository; else None.

    Two copies in one repository would add and remove each other's labels, since both use the same names. The original
    lies next to the repository, or where the run was in its last session.

    Parameters
    ----------
    info:
        Description of the run in `folder`.
    root:
        Root of the repository that it would continue with.
    """
    if not isinstance(root, str):
        return None
    place, last = Path(root), info.about.get("folder")
    homes = [place.parent, *([Path(last)] if isinstance(last, str) else [])]
    for home in homes:
        try:
            if (home / "run.json").samefile(folder / "run.json"):
                return None
            other = read_info(home)
        except (OSError, RunFolderUnusable):
            continue
        if other is not None and other.id == info.id and (home == place.parent or _is_of(other, place)):
            return home
    return None


def _is_of(info: RunInfo, root: Path) -> bool:
    recorded = info.about.get("repository")
    return isinstance(recorded, str) and Path(recorded).resolve() == root.resolve()
