"""Raises the limit of open descriptors as far as the system allows.

Systems give a process a low soft limit (mostly 1 024), for programs that use select(2); the process
may raise it to the hard limit. A gateway needs one descriptor for each client, a balancer two, a
partition node some for each partition. The JVM does the same at its start (-XX:+MaxFDLimit).
"""

import resource

from highwater.runtime.logging import Logger


def raise_descriptor_limit(log: Logger) -> int:
    """Raises the soft limit to the hard one, for children too; returns the new soft limit.

    Never fails: with the former limit services run for fewer clients.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.debug("descriptor_limit_kept", soft=soft, hard=hard, error=str(error))
        return soft
    log.debug("descriptor_limit_raised", soft=hard, before=soft)
    return hard
