"""How a table is: facts from its metadata for the checks, judged with its pipeline's limits."""
