"""Steps of the demo and its final report."""
