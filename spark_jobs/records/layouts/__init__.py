"""What rows are of records, a layout a file: decoded values and keys put together, hot and plain.

Its readers of values and of keys are given to a layout; it says which columns each fills, and makes a
record's columns of what they read.
"""
