"""What records are written in, a folder a language, each behind the seam in ``schema/writer_schema.py``.

avro, protobuf   a schema's values, read side by side and those in doubt alone
json_schema      a schema as types and columns; ``records/json_by_schema.py`` reads values by it
json             values without a schema: a chunk by Arrow, a record by itself
csv              lines
connect          change events of Kafka Connect: the row, the schema beside it, the key
tree             the types of all languages, and how they become columns
lanes            what readers of many values at once share

In a folder ``types`` is a schema as a tree, ``columns`` the tree as columns, ``block`` many values at once,
``plain`` a value by itself, ``schema`` the seam.
"""
