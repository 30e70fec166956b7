"""Imported by the fork server only, for its children: modules that the product imports lazily."""

import dagster_pyspark  # noqa: F401
import great_expectations  # noqa: F401
import pyspark.sql.connect.session  # noqa: F401
