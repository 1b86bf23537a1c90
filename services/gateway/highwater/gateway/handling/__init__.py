"""What the handlers share: the table of APIs, dispatch, their context, fan-out over nodes, errors."""
