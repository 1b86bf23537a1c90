"""The node as a member of the cluster: registers, opens its logs, applies the cluster image."""
