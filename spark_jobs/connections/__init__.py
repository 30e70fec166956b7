"""Connections of a pipeline's work: Kafka, catalog and log from the configuration."""
