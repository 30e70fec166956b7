"""Columns: from evidence, from declarations, as Arrow and as Iceberg see them, and how they may change."""
