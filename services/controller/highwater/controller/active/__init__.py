"""Being the active controller: its election, its image and writer, its periodic tasks."""
