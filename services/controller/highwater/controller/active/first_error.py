"""The error inside nested exception groups."""


def first_error(group: ExceptionGroup[Exception]) -> Exception:
    """The first error that is not itself a group; task groups wrap even a single error."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, ExceptionGroup) else error
