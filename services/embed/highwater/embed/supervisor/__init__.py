"""`highwater up --nodes N`: the services as processes of this host, started, watched and stopped."""
