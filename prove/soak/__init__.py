"""Random events against a live producer, from a seed."""
