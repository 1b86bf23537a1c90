"""An access log sent into a topic: which lines at which times, and how fast."""
