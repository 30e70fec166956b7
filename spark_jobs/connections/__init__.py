"""What a pipeline's work is given: Kafka, catalog and log, opened from the configuration."""
