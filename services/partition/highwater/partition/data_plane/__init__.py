"""The hot path of a partition node: appends, fetches, and the waits of both.

Measured code (decision 17): one call per (loop turn, partition), plain attributes,
no events and no frozen values. The rules that are not hot live in `highwater.partition.core`.
"""
