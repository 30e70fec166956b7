"""Access to Kafka: offsets and ids of topics, chunks of messages, errors."""
