"""Settings of all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: no time limits per example, and slow generation is no error.
settings.register_profile("daskevo", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("daskevo")
