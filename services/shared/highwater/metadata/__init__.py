"""Other services' view of the controller: a watched image of the cluster, calls and heartbeats."""
