"""One repair of a root at a time: a lock on a file that is always there; the system frees it with the process.

Own code, not filelock: the file is `repository.json`, which that one would empty.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator

from daskevo.errors import RepositoryTaken
from daskevo.store.files import usable
from daskevo.store.root import Root

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}
"""Errors of file systems without locks, on which only the epochs keep two repairs apart."""


@contextlib.contextmanager
def only_repair(root: Root) -> Iterator[None]:
    """Exclude other repairs of this root while the block runs.

    Raises
    ------
    RepositoryTaken
        If another repair is running on this host, or on any host if the file system shares locks between hosts.
    RootUnusable
        If this user may not write to the root.
    """
    with usable(root.path, "repair a repository", 0):
        handle = os.open(root.path / "repository.json", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RepositoryTaken(
                f"another repair of {root.path} is under way: wait until it has ended, then verify again",
                root=str(root.path),
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                with usable(root.path, "lock a repository"):
                    raise
        yield
    finally:
        os.close(handle)
