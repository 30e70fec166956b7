"""Judging rows with Great Expectations: which rows, how they are handed over, what comes back."""
