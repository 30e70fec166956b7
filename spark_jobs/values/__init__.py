"""Conversion of values to column types, each exactly or not at all, and their text forms.

ranges     numbers, days and times that a column has a value for
literals   parsed JSON that keeps what was written, numbers and times as text
fitting    a parsed value in a column
exact      arrays of one type in another
plain      the same rules by other means, for audits: it and the others import nothing of each other
"""
