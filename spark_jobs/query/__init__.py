"""SQL over a pipeline's table and its dead letters."""
