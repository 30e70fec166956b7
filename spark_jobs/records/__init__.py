"""A chunk of records on its way: bytes -> Decoder -> columns -> shape -> rows.

row_maker.py       drives it: tombstones out, decode, shape; rows, dead letters and their counts come out
formats.py         which decoder a pipeline's records have
decoder.py         the seam: ``decode`` and ``observe``, of keys, headers and values; audit's is another
json.py            JSON's two decoders, of what ``formats/json`` reads
shape.py           keys, headers and where a record comes from beside them; what could be no row: dead letters
"""
