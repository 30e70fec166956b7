"""Servers of ``up`` and ``demo``, the record of who runs them, and the sample data."""
