"""Expectations on rows: judging files and tables, and the results."""
