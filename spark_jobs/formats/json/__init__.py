"""Values in JSON: parsed by themselves, nothing lost, or a whole chunk by Arrow's reader."""
