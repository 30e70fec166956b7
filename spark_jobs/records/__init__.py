"""A chunk of records on its way: bytes -> Decoder -> columns -> shape -> rows.

row_maker.py       drives it: tombstones out, decode, shape; rows, dead letters and their counts come out
formats.py         which decoder a pipeline's records have
decoder.py         the seam: ``decode`` and ``observe``, of keys, headers and values; audit's is another
json.py            JSON's decoder: a chunk at once, else in blocks, else record by record
fitting.py         a record that was parsed, as a row
json_by_schema.py  JSON Schemas as others are: JSON's decoder fills their columns, json_plain.py reads again
infer.py           the evidence for columns: which fields, of which kinds
shape.py           keys, headers and where a record comes from beside them; what could be no row: dead letters
json_plain.py      no part of it: JSON read a second time, by which audit judges the rows
"""
