"""The kinds of upkeep, one a file named like it; adding one touches nothing else."""
