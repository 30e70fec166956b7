"""Avro schemas and Avro values, behind the interface of ``spark_jobs.schema.writer_schema``.

schema.py    the seam: a schema with its columns, and values read side by side, those in doubt alone
types.py     a schema's text as a tree of types, each as often as it is reached
columns.py   the tree as columns
plain.py     a value read by itself: strict, and what every other reader must agree with
block.py     many values side by side, each believed by itself
"""
