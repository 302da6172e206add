"""Kinds of the events in a run's record that are read again, by whoever wrote them or by reports and forecasts."""

SESSION = "session"
"""A process took the run up: what it was asked for; of a study, what its trajectories begin with."""

STORAGE = "storage"
"""What the repository holds for the run: ``stored_bytes``, ``full_copy_bytes``, ``live_models``."""

DATA = "data"
"""What data the run began with, by their data key: ``digest``, and the version of ``python``."""

OTHER_DATA = "other data"
"""A trainer has prepared others, on which the run went on all the same: ``digest``, ``worker``."""

RECYCLED = "recycled"
"""A trainer was started again, as it was due; ``worker`` is its name."""

STOPPED = "stopped"
"""A process left the run, and why."""

INTERRUPTED = "interrupted by Ctrl-C or a signal"
"""Why it left, where it was."""
