"""SQL over a landed table and its dead letters."""
