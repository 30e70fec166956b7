"""Catalogs, tables and data files: loading, writing and reading them. Commits nothing of a batch."""
