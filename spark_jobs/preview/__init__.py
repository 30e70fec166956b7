"""Previews a topic's table with the evidence; writes nothing."""
