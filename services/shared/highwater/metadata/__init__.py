"""The client side of the controller: a watched image of the cluster, calls and heartbeats."""
