"""Operators' acts on a table's progress: pause, skip, roll back, publish, accept a source."""
