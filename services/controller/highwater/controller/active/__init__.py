"""Being the active controller: its election, its term, its periodic tasks."""
