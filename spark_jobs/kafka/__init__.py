"""Reading Kafka: ends and ids of topics, offset-exact chunks of messages, what its errors mean."""
