"""Kinds of events in a run's record that programs read again: the run itself, reports, forecasts."""

SESSION = "session"
"""A process started or resumed the run: its arguments; for a study also the name of its trajectories' origin."""

STORAGE = "storage"
"""Size of the repository: ``stored_bytes``, ``full_copy_bytes``, ``live_models``."""

DATA = "data"
"""Data key of the data that the run began with: ``digest``, and the version of ``python``."""

OTHER_DATA = "other data"
"""A trainer has different data, and the run continued with them: ``digest``, ``worker``."""

RECYCLED = "recycled"
"""A trainer was restarted because it was due; ``worker`` is its name."""

STOPPED = "stopped"
"""A process left the run; the message says why."""

INTERRUPTED = "interrupted by Ctrl-C or a signal"
"""Message of `STOPPED` after an interruption."""
