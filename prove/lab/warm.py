"""Imported by the fork server alone, which hands it on: the product imports these when it needs them."""

import dagster_pyspark  # noqa: F401
import great_expectations  # noqa: F401
import pyspark.sql.connect.session  # noqa: F401
