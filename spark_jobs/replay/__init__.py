"""Reads any offset range again, during normal drains, and replaces its rows."""
