"""Streams for clients that cannot speak Kafka: batches in, transactions out, and what was answered."""
