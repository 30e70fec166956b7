"""Avro schemas and values written with them, as ``spark_jobs.schema.writer_schema`` asks.

schema.py    the seam: a schema with its columns, and values read as a block, else in smaller ones, else alone
parsing.py   a schema's text as a tree of types, each as often as it is reached
columns.py   the tree as columns
plain.py     a value read by itself: strict, and what every other reader must agree with
block.py     many values at once by DataFusion, believed under a guard
conversion.py what DataFusion read, as columns of the table's types
"""
