"""Who belongs to the cluster: registrations, heartbeats, and members that are gone."""
