"""Changes a table's columns and partitioning during normal drains."""
