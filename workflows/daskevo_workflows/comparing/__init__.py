"""Models of one repository beside each other: who trained which layer, what differs, who inherited from whom. Pure."""
