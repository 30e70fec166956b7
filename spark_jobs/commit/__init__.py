"""Getting a change into a table, and finding out whether it landed. The only room that swaps or sweeps."""
