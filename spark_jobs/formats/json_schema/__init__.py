"""JSON Schemas as types and columns, and values read by them as JSON is.

documents.py  a schema's text and those it refers to: what a ``$ref`` leads to
parts.py      schemas that hold at once, as what they say together
types.py      the text as a tree of types, each as often as it is reached
columns.py    the tree as columns
schema.py     the seam: JSON's block fills the columns
plain.py      a value read again, by JSON's plain reader
"""
