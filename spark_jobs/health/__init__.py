"""The health of a pipeline: facts from its table's metadata, judged by the checks with its limits."""
