"""Settings of all tests."""

from __future__ import annotations

import os
import signal

import dask
import pytest
from hypothesis import HealthCheck, settings

from daskevo.index import PrefixIndex

# A package that tests put in the place of another: nothing in it is a test.
collect_ignore = ["cluster/dask_cuda_of_two"]

# A busy machine must not fail a test: no time limits per example, and slow generation is no error.
settings.register_profile("daskevo", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("daskevo")

# Nor must it end a call, here or in processes that tests start; tests of timeouts set their own.
os.environ["DASK_DASKEVO__TIMEOUT"] = "2 minutes"
dask.config.refresh()

# As commands set it. JAX sets a lower one when a test imports it: processes that tests start would inherit that, and
# print what TensorFlow has to say of GPUs that are not there.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so; the commands that tests interrupt would inherit it and never hear Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the order of files with pytest-xdist as well, which else begins with the longest.

    In-process clusters of Dask's own tests end all processes that they find, so those that share a cluster of real ones
    come last.
    """
    config.option.loadscopereorder = False
    if config.option.numprocesses:
        PrefixIndex().warm()  # once, for all processes: each would compile it while it collects


@pytest.fixture(scope="session", autouse=True)
def compiled_core() -> None:
    """Compile the prefix index before anything else: not beside a cluster whose timeouts are under test.

    The processes that tests start take it from the cache.
    """
    PrefixIndex().warm()
