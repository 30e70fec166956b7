"""The table a topic would become, with the evidence; writes nothing."""
