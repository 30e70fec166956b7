"""What rows are of records, a layout a file with all that it owns: ``protocol/work.py`` finds them.

Nobody imports one: a pipeline and a table have theirs. What is heavy is imported by who is asked for it.
"""
