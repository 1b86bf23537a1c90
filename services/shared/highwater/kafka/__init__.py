"""The Kafka wire protocol as pure functions between bytes and objects: no sockets, no clock."""
