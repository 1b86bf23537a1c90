"""Opens the files of a directory as a usable log."""
