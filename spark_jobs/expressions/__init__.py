"""Expressions over a record: SQL that may not depend on anything else, and JMESPath over JSON documents.

engine.py      the one DuckDB of a process, shut in
quoting.py     names as SQL has them
judging.py     whether a text is an expression that may be evaluated, and which names it speaks of
evaluating.py  expressions over a chunk, and the rows on which one fails
results.py     which column can take the result of which type
paths.py       JMESPath
"""
