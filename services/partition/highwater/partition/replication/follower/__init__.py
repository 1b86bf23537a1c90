"""The follower's side: streams to leaders, and what they bring written to this node's logs."""
