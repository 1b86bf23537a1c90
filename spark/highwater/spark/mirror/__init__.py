"""Topics of other clusters as copies in one cluster, every record once."""
