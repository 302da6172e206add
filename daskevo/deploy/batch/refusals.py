"""Why a batch system took no job: it was not there, did not answer, or refused what was asked for; and what to do.

No I/O: what its command has said is all that there is to go by.
"""

from __future__ import annotations

from typing import NamedTuple

UNANSWERED = (
    # Slurm, its configuration, and munge, without which nobody listens
    "unable to contact slurm controller",
    "socket timed out on send/recv operation",
    "zero bytes were transmitted or received",
    "communication connection failure",
    "controller is in standby mode",
    "could not establish a configuration source",
    "unable to process configuration file",
    "munge encode failed",
    "failed to connect to authentication agent",
    # PBS
    "cannot connect to server",
    "cannot connect to specified server host",
    "communication failure",
    "pbs_iff",
    # SGE and LSF
    "unable to contact qmaster",
    "unable to send message to qmaster",
    "commlib error",
    "lsf is down",
    "lim is down",
    "batch daemon not responding",
    # all of them
    "connection refused",
    "connection timed out",
    "connection reset by peer",
    "no route to host",
    "network is unreachable",
    "name or service not known",
    "unknown host",
)
"""What commands say when the batch system itself was not reached, in lower case."""

LATE = ("timed out", "receive failure", "zero bytes", "reset by peer")
"""What they say when it may have taken the job all the same."""

ASKED_BY = {"sbatch": "sinfo", "qsub": "qstat -B", "msub": "showq", "bsub": "lsid", "oarsub": "oarstat"}
"""Command that submits -> one that only asks whether the batch system is there."""

QUOTED = 500
"""Characters that are quoted at most."""


class Refusal(NamedTuple):
    """Why no job was taken."""

    answered: bool
    """Whether the batch system was reached."""
    words: str
    """That, what it said, and the next step."""


def refusal(command: str, message: str) -> Refusal:
    """Return why a job was not taken.

    Parameters
    ----------
    command:
        That was to submit it, such as ``sbatch``.
    message:
        dask-jobqueue's, which holds what the command has written.

    Examples
    --------
    >>> refusal("sbatch", "stderr:\\nsbatch: error: Unable to contact slurm controller (connect failure)").answered
    False
    >>> refusal("qsub", "stderr:\\nqsub: Unknown queue").words[:47]
    "qsub took no job: 'qsub: Unknown queue'. Change"
    """
    said = _said(message)
    low = said.lower()
    if not any(words in low for words in UNANSWERED):
        return Refusal(
            True,
            f"{command} took no job: {said}. Change what was asked for (queue, account, walltime, cores, memory: "
            "dask-jobqueue's YAML file, or options of batch_cluster); `job_script()` of the cluster shows the script",
        )
    taken = " A job may have been taken all the same: it ends by itself." if any(w in low for w in LATE) else ""
    asks = f"until `{ASKED_BY[command]}` answers here" if command in ASKED_BY else "until it answers here"
    return Refusal(
        False,
        f"the batch system does not answer {command}: {said}. That has nothing to do with the job.{taken} Wait "
        f"{asks}, or use another login node, and give the same command again; if it stays so, ask whoever runs it",
    )


def _said(text: str) -> str:
    """Return what the batch system said, out of dask-jobqueue's message."""
    # Standard error last in its message, which quotes both streams.
    before, found, stderr = text.partition("stderr:")
    stdout = before.partition("stdout:")[2] if found else ""
    # Some commands explain a refusal on standard output.
    for part in (stderr, stdout):
        if words := " ".join(part.split()):
            return repr(words[:QUOTED])
    if found:
        code = before.partition("Exit code:")[2].split()[:1]
        return "it says nothing" + (f", exit code {code[0]}" if code else "")
    return repr(" ".join(text.split())[:QUOTED])
