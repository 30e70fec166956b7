"""A table's columns and partitioning changed, beside the live flow."""
