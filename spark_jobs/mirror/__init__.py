"""Mirrors: tables that equal their source. The newest event of a key lives, others are deleted.

A mirror's data files hold every event, as a table of changes has them. What a commit adds to that is one file
of deleted positions: of its own events those that are not the newest of their key, and of the table the rows
that they take the place of. So a batch is folded from its files alone, by whoever commits it.
"""
