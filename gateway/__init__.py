"""The gateway: clients without Kafka send batches, which become Kafka transactions and are acknowledged."""
