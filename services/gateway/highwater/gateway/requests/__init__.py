"""Takes whole request frames to the paths and handlers that answer them."""
