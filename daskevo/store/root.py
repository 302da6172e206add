"""The root folder of a repository: its description (repository.json), its scopes, and its number of shards."""

from __future__ import annotations

import contextlib
import datetime
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from daskevo.errors import DurabilityMismatch, InvalidInput, RootUnusable
from daskevo.protocol.scopes import agreed_objective
from daskevo.store.files import (
    Durability,
    corrupt,
    create_file,
    dump_json,
    free_bytes,
    make_folder,
    read_json,
    refuse_links,
    replace_file,
    sync_folder,
    usable,
    with_reserve,
)
from daskevo.store.shard_folder import ShardFolder
from daskevo.store.shard_state import SERVED
from daskevo.types import JSON

T = TypeVar("T")
FORMAT = 1
MAX_SHARDS = 4096
DURABILITIES: tuple[Durability, ...] = ("volatile", "written", "synced")


@dataclass(frozen=True)
class Root:
    """An opened repository folder. Opening takes no lease: see :mod:`daskevo.store.lease`.

    Attributes
    ----------
    path:
        The folder, absolute.
    repository_id:
        A random UUID, drawn when the repository was created; two hosts see the same root if they see the same id.
    shards:
        Number of shards, which never changes.
    created:
        Time of creation, ISO 8601, UTC.
    durability:
        Durability of answered changes; it never changes, since stored data was written with it.
    """

    path: Path
    repository_id: str
    shards: int
    created: str
    durability: Durability = "written"

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Root:
        """Open an existing repository.

        Raises
        ------
        RootUnusable
            If there is none, or the folder can't be read.
        CorruptRecord
            If repository.json is damaged, of a later version, or has a wrong number of shards.
        """
        path = Path(path).absolute()
        file = path / "repository.json"
        with usable(path, "open a repository"):
            value = read_json(file, "the repository's description", FORMAT)
        match value:
            case {"format": 1, "repository_id": str(name), "shards": int(shards), "created": str(created)} if (
                0 < shards <= MAX_SHARDS and type(shards) is int
            ):
                # Roots of daskevo before 0.1 have no such field.
                durability = value.get("durability", "written")
                if durability not in DURABILITIES:
                    raise corrupt(file, f"no durability: {str(durability)[:80]}", 0)
                root = cls(path, name, shards, created, durability)
                refuse_links(path / "shards")
                root._check_count()
                return root
        raise corrupt(file, f"no description of a repository: {str(value)[:80]}", 0)

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, shards: int = 64, durability: Durability | None = None) -> Root:
        """Open a repository, and create it if there is none; concurrent callers create one repository.

        Parameters
        ----------
        path:
            The folder; it and its parents are created if missing.
        shards:
            Number of shards of a new repository; an existing one keeps its number.
        durability:
            Durability of a new repository, ``written`` when None. If it is not None, an existing repository must have
            the same.

        Raises
        ------
        DurabilityMismatch
            If an existing repository has another durability.
        RootUnusable
            If the folder can't be created or written.
        CorruptRecord
            If an existing repository is damaged, or there are shards without repository.json.
        InvalidInput
            If the number of shards isn't 1 to 4096.
        """
        if type(shards) is not int or not 0 < shards <= MAX_SHARDS:
            raise InvalidInput(f"a repository can't have {shards!r} shards: use 1 to {MAX_SHARDS}")
        path = Path(path).absolute()
        new = durability or "written"
        with usable(path, "make a repository", 0):
            if not (path / "repository.json").exists():
                make_folder(path, sync=new == "synced")
            if not (path / "repository.json").exists():
                # A new description would give these shards a new id, and perhaps another number of shards.
                with contextlib.suppress(FileNotFoundError):
                    kept = (path / SERVED).exists() or os.listdir(path / "shards")
                    if kept and not (path / "repository.json").exists():
                        raise corrupt(path, "there are shards, but repository.json is gone", 0)
                description = {
                    "format": FORMAT,
                    "repository_id": str(uuid.uuid4()),
                    "shards": shards,
                    "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                    "durability": new,
                }
                create_file(path / "repository.json", dump_json(description), sync=new == "synced")
        root = cls.open(path)
        check_durability(path, root.durability, durability)
        with usable(path, "make a repository", 0):
            (path / "shards").mkdir(exist_ok=True)
            if root.durability == "synced":
                # Also if it existed: the process that created it may have died before it synced the name.
                sync_folder(path)
        return root

    def _check_count(self) -> None:
        """Check that the number of shards is the one with which models were assigned to shards."""
        with usable(self.path, "open a repository"):
            try:
                value = read_json(self.path / SERVED, "the number of shards", FORMAT)
            except FileNotFoundError:
                found = self._least_count()
            else:
                if not isinstance(value, dict) or value.get("format") != FORMAT or type(value.get("shards")) is not int:
                    raise corrupt(
                        self.path / SERVED,
                        f"no number of shards of format {FORMAT}: {str(value)[:80]}",
                        0,
                        "Restore it from a copy; if repository.json and all folders in shards/ are there, remove it",
                    )
                found = value["shards"]
        if found != self.shards:
            raise corrupt(
                self.path / "repository.json",
                f"it names {self.shards} shards, but the repository has {found}, and that never changes",
                0,
                "Restore it from a copy",
            )

    def _least_count(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            numbers = [int(name) for name in os.listdir(self.path / "shards") if name.isdecimal()]
            return max([self.shards, *(number + 1 for number in numbers)])
        return self.shards

    def mark_served(self) -> None:
        """Record that all shards have been served, so that a shard without a state is known to have lost it.

        Nothing may be stored before this returns.
        """
        data = dump_json({"format": FORMAT, "shards": self.shards})
        with usable(self.path, "open a repository", len(data)):
            if not (self.path / SERVED).exists():
                self.with_reserve(lambda: create_file(self.path / SERVED, data, sync=self.durability == "synced"))

    def with_reserve(self, act: Callable[[], T]) -> T:
        """Call `act`, which writes little; on a full disk, in the room that shards' reserves leave.

        This lets users open a repository on a full disk, in order to retire models there.
        """
        return with_reserve(act, self.path / "shards")

    def shard(self, number: int) -> ShardFolder:
        """Return a new object for the folder of a shard; each owner needs one of its own."""
        if not 0 <= number < self.shards:
            raise InvalidInput(f"there is no shard {number}: this repository has {self.shards}")
        return ShardFolder(self.path, number, durability=self.durability)

    def is_replaced(self) -> bool:
        """Whether the folder was removed, or has another repository now.

        Raises
        ------
        RootUnusable
            If the folder exists without a repository, for example because a file system is not mounted.
        """
        with usable(self.path, "look for a repository"):
            if not self.path.exists():
                return True
        try:
            return Root.open(self.path).repository_id != self.repository_id
        except RootUnusable as error:
            raise RootUnusable(
                f"repository {self.repository_id} was open here, and can't be found any more: {error.message}. If it "
                f"was removed on purpose, remove the folder {self.path} too, then open it again",
                **error.facts,
            ) from error

    def check_sight(self, repository_id: str) -> None:
        """Check that this host sees the repository of that id at this path, and may write to it.

        Raises
        ------
        RootUnusable
            If it sees another repository, or may not write.
        """
        if self.repository_id != repository_id:
            raise RootUnusable(
                f"{self.path} on this host holds repository {self.repository_id}, not {repository_id}: give a folder "
                "that every host sees",
                folder=str(self.path),
                needed_bytes=None,
                free_bytes=free_bytes(self.path),
                errno=None,
            )
        with usable(self.path, "write to a repository", 0):
            if not os.access(self.path / "shards", os.R_OK | os.W_OK | os.X_OK):
                raise PermissionError(13, "this user may not write there")

    def scopes(self) -> dict[str, str | None]:
        """Return the objective of each scope (``max val_auc``), None if none was declared yet."""
        file = self.path / "scopes.json"
        with usable(self.path, "read the scopes"):
            try:
                value = read_json(file, "the scopes", FORMAT, 16 << 20)
            except FileNotFoundError:
                return {}
        match value:
            case {"format": 1, "scopes": dict(scopes)} if all(
                objective is None or isinstance(objective, str) for objective in scopes.values()
            ):
                return scopes
        raise corrupt(file, f"no scopes of format {FORMAT}: {str(value)[:80]}", 0)

    def declare_scope(self, scope: str, objective: str | None) -> str | None:
        """Add a scope with its objective, or declare the objective of a known one; return its objective.

        Only the coordinator may call this, one call after the other, since it reads, changes and writes a file.

        Raises
        ------
        ScopeMismatch
            If the scope has another objective.
        InvalidInput
            If scope or objective are malformed.
        """
        scopes = self.scopes()
        found = agreed_objective(scopes, scope, objective)
        if scope not in scopes or scopes[scope] != found:
            new: JSON = {"format": FORMAT, "scopes": scopes | {scope: found}}
            data = dump_json(new)
            with usable(self.path, "declare a scope", len(data)):
                self.with_reserve(
                    lambda: replace_file(self.path / "scopes.json", data, sync=self.durability == "synced")
                )
        return found

    def free_bytes(self) -> int | None:
        """Return the bytes that may still be written to the root's file system; None if that is unknown."""
        return free_bytes(self.path)


def check_durability(root: str | os.PathLike[str], found: Durability, asked: Durability | None) -> None:
    """Compare a root's durability with the one asked for; None accepts any.

    Raises
    ------
    DurabilityMismatch
        If they differ.
    """
    if asked not in (None, found):
        raise DurabilityMismatch(
            f"durability={asked!r} was asked for, but {os.fspath(root)} was made with {found!r}, and what is there was "
            "written so: leave the argument out, or export the models into another root",
            root=os.fspath(root),
            asked=asked,
            found=found,
        )
