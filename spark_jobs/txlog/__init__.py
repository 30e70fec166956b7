"""The transaction log: six phases an attempt, one small object each, and what a listing tells."""
