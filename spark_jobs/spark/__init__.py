"""Spark tasks and their outcomes, Iceberg's procedures, and code shipped to Spark servers."""
