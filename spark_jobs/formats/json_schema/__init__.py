"""JSON Schemas as types and columns; ``records/json_by_schema.py`` reads values by them.

documents.py  a schema's text and those it refers to: what a ``$ref`` leads to
parts.py      schemas that hold at once, as what they say together
types.py      the text as a tree of types, each as often as it is reached
columns.py    the tree as columns
"""
