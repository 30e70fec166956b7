"""Exports an archive back into a topic.

archived.py  records of the table, in order
plan.py      which of them, and what Kafka cannot take
target.py    the topic: made, looked at, compared with what it is to hold
ordered.py   records on their way, each once and in order
gaps.py      offsets without a record, where offsets are kept
export.py    drives it: what the target lacks is produced
"""
