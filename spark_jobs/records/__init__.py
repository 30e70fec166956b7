"""From bytes to rows: decode a chunk, shape it to the table's columns, keep what fails as dead letters."""
