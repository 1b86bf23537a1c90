"""From the files of a directory to a log that can be used."""
