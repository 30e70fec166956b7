"""Table against Kafka, record by record or by metadata alone, and where one record is."""
