"""Values in JSON.

block.py         a chunk at once, else in blocks, else record by record
arrow_reader.py  a chunk to columns by Arrow, believed under guards (nesting.py is one)
parsing.py       a record as Python objects, nothing of it lost
infer.py         the evidence for columns: which fields, of which kinds
plain.py         no part of it: JSON read a second time, by which audit judges the rows
"""
