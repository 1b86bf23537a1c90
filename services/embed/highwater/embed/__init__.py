"""The composition root: all services in one process, or as supervised processes; the command line.

The only code that imports several services.
"""
