"""Expressions over a record: SQL without other inputs, and JMESPath over JSON documents.

engine.py      the one DuckDB of a process, shut in
quoting.py     names as SQL has them
judging.py     whether a text is an expression that may be evaluated, and which names it speaks of
evaluating.py  expressions over a chunk, and the rows on which one fails
results.py     which column can take the result of which type
paths.py       JMESPath
"""
