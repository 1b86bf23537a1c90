"""The error behind those that task groups wrap around it."""


def first_error(group: ExceptionGroup[Exception]) -> Exception:
    """The first error that is not itself a group; task groups wrap even a single one."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, ExceptionGroup) else error
