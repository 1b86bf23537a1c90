"""All services in one process or as supervised processes: the only code that imports several."""
