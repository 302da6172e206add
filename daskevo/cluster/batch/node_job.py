"""A job of dask-jobqueue that says plainly what goes wrong with it."""

from __future__ import annotations

import shlex
from typing import Any

from distributed.core import Status

from daskevo.cluster.batch.refusals import refusal
from daskevo.errors import BatchSystemError


class NodeJob:
    """What is mixed into dask-jobqueue's class of a job: what goes wrong with it is said plainly."""

    submit_command: Any
    job_id: Any
    status: Any

    async def start(self) -> None:
        command = shlex.split(str(self.submit_command))[0]
        try:
            await super().start()  # type: ignore[misc]
        except FileNotFoundError as error:
            raise BatchSystemError(
                f"there is no {command!r} here ({error}): give the command on a node from which jobs are submitted, or "
                "leave the batch system out for a cluster on this machine",
                command=command,
            ) from error
        except (RuntimeError, ValueError) as error:
            found = refusal(command, str(error))
            raise BatchSystemError(found.words, command=command, answered=found.answered) from error

    async def close(self) -> None:
        await super().close()  # type: ignore[misc]
        self.status = Status.closed
