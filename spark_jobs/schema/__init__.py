"""Table columns: from evidence or declarations, as Arrow and Iceberg types, and their evolution."""
