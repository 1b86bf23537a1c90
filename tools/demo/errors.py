"""How the demo ends when it does not end well."""

EXIT_FAILED = 1
EXIT_USAGE = 2


class DemoError(Exception):
    """Something did not work; told in a few lines, without a traceback. Exit code 1."""

    exit_code = EXIT_FAILED


class UsageError(DemoError):
    """The user has to change something: a busy port, a missing file. One line. Exit code 2."""

    exit_code = EXIT_USAGE
