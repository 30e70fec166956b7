"""Every job, killed at every place and met by every outcome of its commit; then run again."""
