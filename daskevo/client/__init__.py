"""Client side of the protocol, used by clients and tasks: match, reserve, inherit, put, read, verify."""
