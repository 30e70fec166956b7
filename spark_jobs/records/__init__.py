"""A chunk of records on its way: bytes -> Decoder -> columns -> shape -> rows.

row_maker.py       drives it: tombstones out, decode, shape; rows, dead letters and their counts come out
reading_plan.py    how a pipeline's records are read now; what they tell that is new is learned
formats.py         which decoder a pipeline's records have
layouts/           what rows are of values and keys that were read: flat, an archive, changes
decoder.py         the seam: ``decode`` and ``observe``, of keys, headers and values; audit's is another
json.py            JSON's two readers of values, by ``formats/json``
shape.py           keys, headers and where a record comes from beside them; what could be no row: dead letters
"""
