"""Record batches (magic 2): header access, building, decoding, compression and validation."""
