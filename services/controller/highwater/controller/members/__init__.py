"""The members of the cluster: registrations, heartbeats, and the end of members."""
