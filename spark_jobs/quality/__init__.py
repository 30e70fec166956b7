"""Quality gates and checks: evaluating expectations on files and tables, and results."""
