"""A job of dask-jobqueue that hands Dask's configuration on, and says plainly what goes wrong with it."""

from __future__ import annotations

import shlex
from typing import Any

import dask
from distributed.core import Status

from daskevo.deploy.batch.carried_configuration import export_line
from daskevo.deploy.batch.refusals import refusal
from daskevo.errors import BatchSystemError


class NodeJob:
    """What is mixed into dask-jobqueue's class of a job.

    Its workers have what is set in Dask's configuration as it is submitted; what goes wrong with it is said plainly.
    """

    submit_command: Any
    job_id: Any
    status: Any

    config_name: str

    def __init__(
        self, *args: Any, config_name: str | None = None, job_script_prologue: Any = None, **options: Any
    ) -> None:
        if (line := export_line()) is not None:
            if job_script_prologue is None:
                section = f"jobqueue.{config_name or self.config_name}"
                job_script_prologue = dask.config.get(f"{section}.job-script-prologue", None)
            # First, so that the job's own lines may say otherwise.
            job_script_prologue = [line, *(job_script_prologue or ())]
        super().__init__(*args, config_name=config_name, job_script_prologue=job_script_prologue, **options)  # type: ignore[call-arg]

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
        except OSError as error:
            # No permission, or this host is short of processes or memory for a moment: nobody was asked, so a cluster
            # that had jobs already submits this one again.
            raise BatchSystemError(
                f"{command!r} could not be run here: {error}", command=command, answered=False
            ) from error
        except (RuntimeError, ValueError) as error:
            found = refusal(command, str(error))
            raise BatchSystemError(found.words, command=command, answered=found.answered) from error

    async def close(self) -> None:
        await super().close()  # type: ignore[misc]
        # dask-jobqueue leaves the status as it was, and Dask asserts at a cluster's end that all that it started is
        # closed.
        self.status = Status.closed
