"""Audits of tables against Kafka or by metadata, and tracing of single records."""
