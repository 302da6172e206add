"""Clusters and what is opened on them: local and batch clusters, roles of workers, scaling, settings."""

from __future__ import annotations

from daskevo.deploy.configuration import load

load()
