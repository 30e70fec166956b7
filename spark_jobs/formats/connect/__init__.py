"""Change events as Debezium writes them in JSON: their envelope, the schema around it, a row's values."""
