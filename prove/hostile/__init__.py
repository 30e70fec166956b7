"""What pipelines cannot help: brokers, catalogs, disks, clocks, records, other engines."""
