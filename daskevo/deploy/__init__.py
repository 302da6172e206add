"""Deployment: local and batch clusters, roles of workers, scaling, and settings of repositories."""

from __future__ import annotations

from daskevo.deploy.configuration import load

load()
