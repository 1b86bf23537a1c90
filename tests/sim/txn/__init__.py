"""Transactions in the simulation: a cluster of several partitions, its coordinators and its clients."""
