"""Protobuf schemas and values, behind the interface of ``spark_jobs.schema.writer_schema``.

schema.py    the seam: a schema with its columns, and values read side by side, those in doubt alone
compiling.py a schema's text, or its descriptor in base64, as one set of descriptors: on the driver only
types.py     a message as a tree of types, each as often as it is reached
columns.py   the tree as columns
plain.py     a value read by itself: strict, and what every other reader must agree with
block.py     many values side by side, each believed by itself
"""
