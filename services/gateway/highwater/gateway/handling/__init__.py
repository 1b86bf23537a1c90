"""What the handlers share: the table of APIs, their context, fan-out over nodes, errors."""
