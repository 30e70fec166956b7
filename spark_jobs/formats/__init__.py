"""Record formats, one folder per schema language, each behind the interface in ``schema/writer_schema.py``.

avro, protobuf   a schema's values, read side by side and those in doubt alone
json             values without a schema: a chunk by Arrow, believed under guards, a record by itself
json_schema      the same values by their schema
csv              lines
connect          change events of Kafka Connect: the row, the schema beside it, the key
tree             the types of all languages, and how they become columns
lanes            what readers of many values at once share

In a folder ``types`` is a schema as a tree, ``columns`` (or ``schema``) the tree as columns, ``block`` reads
many values at once, ``plain`` one by itself, which audits rest on; ``schema`` is the seam.
"""
