"""The metadata store: a port with drivers for etcd, SQLite and memory."""
