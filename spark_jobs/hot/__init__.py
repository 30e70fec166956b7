"""The records that Kafka has beyond a table, as rows beside its own: which ones, and where they begin.

Nothing here writes: the table's offsets are the only position, and whoever stops begins at them again.
"""
