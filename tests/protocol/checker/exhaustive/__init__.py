"""Explicit-state exploration of the protocol: every order of events and faults, over the code that production runs."""
