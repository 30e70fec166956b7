"""The hot tail: records that are in Kafka and not in the table yet, as rows.

This package writes nothing: the table's offsets are the only position, and every process starts from them.
"""
