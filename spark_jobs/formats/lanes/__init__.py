"""Building blocks of readers that process many values in parallel."""
