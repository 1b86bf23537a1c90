"""Client quotas at the gateway: who is limited, how that is measured, and how connections are held."""
