"""One file per API: Kafka's message in, the core's answer out, in the client's version.

A handler gets the shard, the call and the time; it returns the encoded response body, or None
when the answer comes through the shard's replies (JoinGroup, SyncGroup). DecodeError means that
the client's bytes are wrong.
"""
