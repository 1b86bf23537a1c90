"""The errors that end the demo."""

EXIT_FAILED = 1
EXIT_USAGE = 2


class DemoError(Exception):
    """Something failed; printed in a few lines, without a traceback. Exit code 1."""

    exit_code = EXIT_FAILED


class UsageError(DemoError):
    """The user must change something (a busy port, a missing file). One line. Exit code 2."""

    exit_code = EXIT_USAGE
