"""The command line, and the composition root: all services in one process, or supervised processes.

The only code that imports several services.
"""
