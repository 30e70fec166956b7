"""Work on Spark: tasks and their outcomes, Iceberg's procedures, the code that is shipped there."""
