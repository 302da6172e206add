"""Use a root without a cluster: open it read-only, query the status of models, repair it."""
