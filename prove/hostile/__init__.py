"""Hostile conditions: brokers, catalogs, disks, clocks, records, other engines."""
