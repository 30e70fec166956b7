"""What finished attempts came to, as an Iceberg table and as history."""
