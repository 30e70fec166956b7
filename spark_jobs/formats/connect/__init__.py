"""Debezium change events in JSON: their envelope, the schema around it, and the row's values."""
