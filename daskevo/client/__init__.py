"""Steps of the protocol as a client or a task carries them out: match, reserve, inherit, put, read, verify."""
