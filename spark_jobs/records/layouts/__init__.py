"""Layouts of records as rows, one file each: decoded values and keys combined, hot and plain.

Its readers of values and of keys are given to a layout; it says which columns each fills, and makes a
record's columns of what they read.
"""
