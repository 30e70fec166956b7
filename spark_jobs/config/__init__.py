"""``sluice.yaml``: from its text to settings, with every mistake at once. Opens nothing but files."""
