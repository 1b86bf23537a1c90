"""The cluster's image in one term: one writer changes it, all watchers get it."""
