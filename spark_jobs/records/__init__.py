"""A chunk of records on its way: bytes -> Decoder -> columns -> shape -> rows.

row_maker.py       drives it: tombstones out, decode, shape; rows, dead letters and their counts come out
reading_plan.py    how a pipeline's records are read now, by which decoder, and learned
layouts/           what rows are of values and keys that were read: flat, an archive, changes
decoder.py         the seam: ``decode`` and ``observe``, audit's is another; what is done to what was decoded
shape.py           keys, headers and where a record comes from beside them; what could be no row: dead letters
"""
