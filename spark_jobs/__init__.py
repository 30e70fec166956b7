"""The drain and its sibling jobs: they know Kafka, Spark and Iceberg, and nothing of Dagster."""

__version__ = "0.1.0"
