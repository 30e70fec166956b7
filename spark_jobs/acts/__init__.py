"""What an operator does to a table's progress: pause, skip, roll back, publish, take a new source."""
