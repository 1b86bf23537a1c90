"""Pure rules of a replica: no I/O, no clock, no await."""
