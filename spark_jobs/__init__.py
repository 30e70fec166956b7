"""The drain and its sibling jobs: they know Kafka, Spark and Iceberg, and nothing of Dagster."""

__version__ = "0.1.0"
# What stands before the names of Sluice's packages: nothing in a clone; a wheel has them all in one.
WITHIN = __name__.removesuffix("spark_jobs")
