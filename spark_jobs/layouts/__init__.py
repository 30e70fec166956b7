"""Layouts: how records become rows, one file each; ``protocol/work.py`` finds them.

Nobody imports one: a pipeline and a table have theirs. What is heavy is imported by who is asked for it.
"""
