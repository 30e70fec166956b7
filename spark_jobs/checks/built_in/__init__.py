"""The built-in checks, one a file named like it; adding one touches nothing else."""
