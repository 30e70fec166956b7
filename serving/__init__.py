"""A process that answers: queries over tables and what Kafka has beyond them, by several protocols."""
