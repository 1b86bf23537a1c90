"""`highwater broker`: a node, its gateway and perhaps a controller in one process."""
