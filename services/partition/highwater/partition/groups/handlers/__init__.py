"""One file per API: decodes Kafka's message, calls the core, encodes the answer.

A handler gets the shard, the call and the time. It returns the encoded response body, or None
when the answer comes through the shard's replies (JoinGroup, SyncGroup). It raises DecodeError
when the client's bytes are wrong.
"""
