"""Catalogs, tables and data files: loading, writing and reading. Commits no batch."""
