"""Types that every service shares: ids, the cluster image, errors, topic configs, time.

Standard library only; nothing here does I/O.
"""
