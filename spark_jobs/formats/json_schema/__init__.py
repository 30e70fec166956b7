"""JSON Schemas as types and columns, and values read by them as JSON is.

documents.py  a schema's text and those it refers to: what a ``$ref`` leads to
parts.py      schemas that hold at once, as what they say together
types.py      the text as a tree of types, each as often as it is reached
schema.py     the seam: the tree as columns, which JSON's block fills
plain.py      a value read again, by JSON's plain reader
"""
