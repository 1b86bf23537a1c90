"""One file per API that the transaction coordinator answers: from bytes to the core and back.

All functions run on the event loop and return the response body's bytes.
"""
