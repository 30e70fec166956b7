"""Values in JSON.

block.py    a chunk at once by Arrow, believed under guards as nesting.py, else by blocks, else by record
parsing.py  a record as Python objects, nothing of it lost
infer.py    the evidence for columns: which fields, of which kinds
plain.py    no part of it: JSON read a second time, by which audit judges the rows
"""
