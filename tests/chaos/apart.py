"""A place apart for a trial: namespaces of its own for network, mounts and processes, gone with it whatever happens."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache

UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
PROBE = (
    "ip link set lo up && ip link add evo type bridge && ip link add evo0 type veth peer name eth0 && "
    "mount -t tmpfs evo /mnt && unshare --net nsenter --version"
)


@cache
def apart() -> tuple[tuple[str, ...], str]:
    """Return how to start a command in a place apart, and if that is not possible why (then the first is empty).

    Who isn't root may be in a user namespace, where the system allows them.
    """
    missing = [name for name in ("unshare", "nsenter", "ip", "mount") if shutil.which(name) is None]
    if missing:
        return (), f"not installed: {', '.join(missing)}"
    words = UNSHARE if os.geteuid() == 0 else (*UNSHARE, "--map-root-user")
    probe = subprocess.run([*words, "sh", "-c", PROBE], capture_output=True, text=True, check=False)
    if probe.returncode:
        return (), f"not allowed here: {probe.stderr.strip()[:200]}"
    return words, ""


def beside_a_reaper(work: Callable[[], None]) -> None:
    """Do the work; as the first process of a place apart in a second one, while this one buries whoever ends.

    To the first process come all whose parents were killed; they stay in the kernel's table until it has
    waited for them.
    """
    if os.getpid() != 1 or (child := os.fork()) == 0:
        work()
        return
    while (ended := os.wait())[0] != child:
        pass
    sys.exit(os.waitstatus_to_exitcode(ended[1]))
