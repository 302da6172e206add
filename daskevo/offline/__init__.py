"""A root without a cluster: open it to look, say where its models stand, repair it."""
