"""The follower's side: streams to leaders; their records are appended to this node's logs."""
