"""Exit codes of commands: they mean the same in all of them, except for 1, which each command defines."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from daskevo_workflows.cli.group import UNFORESEEN
from daskevo_workflows.cli.interrupts import INTERRUPTED

STOPPED_FOR_TIME = 75
"""Exit code of a search or a study whose batch job is over before it is: EX_TEMPFAIL of sysexits.h."""

WIDTH = 68

MEANINGS: Mapping[int, str] = {
    0: "It is done.",
    1: "It ran to its end, and the answer is no: too many evaluations or trials failed (nas, tune), there are "
    "differences (verify), models may be missing (models ls), a problem isn't sound (check), a model was given a "
    "label meanwhile (models retire).",
    2: "It was refused, could not begin or could not go on. The message on stderr says what to do.",
    UNFORESEEN: "An unexpected error, with its traceback. What was finished is kept.",
    STOPPED_FOR_TIME: "The batch system's time is over. The same command, in the next job, goes on.",
    INTERRUPTED: "It was interrupted, by Ctrl-C or a signal. The same command goes on.",
}


def epilog() -> str:
    """Return the table for a `--help`, one code after the other."""
    width = max(len(str(code)) for code in MEANINGS)
    return "\b\nExit codes:\n" + "\n".join(
        f"  {code:>{width}}  {line}" if number == 0 else f"  {'':{width}}  {line}"
        for code, words in MEANINGS.items()
        for number, line in enumerate(textwrap.wrap(words, WIDTH))
    )
