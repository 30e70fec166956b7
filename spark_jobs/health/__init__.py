"""The built-in checks: facts of topic, table and log, and their judgement."""
