"""How figures are said: as on the dashboard (:mod:`daskevo_plugins.formatting`)."""

from daskevo_plugins.formatting import (
    byte_unit,
    plain,
    say_bytes,
    say_count,
    say_qualities,
    say_quality,
    say_saved,
    say_seconds,
    say_share,
    say_times,
    time_unit,
)

__all__ = [
    "byte_unit",
    "plain",
    "say_bytes",
    "say_count",
    "say_qualities",
    "say_quality",
    "say_saved",
    "say_seconds",
    "say_share",
    "say_times",
    "time_unit",
]
