"""The kinds of upkeep, one module each; adding one changes nothing else."""
