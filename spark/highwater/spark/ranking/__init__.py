"""Items ranked by their counts over sliding windows."""
