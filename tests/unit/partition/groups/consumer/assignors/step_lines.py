"""How much each step of a piece of work does."""

import sys


def lines_of_steps(steps):
    """([lines of Python that each step runs], the result)"""
    counts = []
    lines = 0

    def count(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    while True:
        lines = 0
        sys.settrace(count)
        try:
            next(steps)
        except StopIteration as stop:
            result = stop.value
            return [*counts, lines], result
        finally:
            sys.settrace(before)
        counts.append(lines)
