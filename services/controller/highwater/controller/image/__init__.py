"""The cluster's image in one term: changed by one writer, handed to all watchers."""
