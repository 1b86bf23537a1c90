"""Code that several handlers share: the table of APIs, context, fan-out over nodes, errors."""
