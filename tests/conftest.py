"""Settings of all tests."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: no time limits per example, and slow generation is no error.
settings.register_profile("daskevo", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("daskevo")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so; the commands that tests interrupt would inherit it and never hear Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
