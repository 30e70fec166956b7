"""Results of finished attempts, as an Iceberg table and as history."""
