"""The commit: written files and progress become one snapshot exactly once, despite crashes and delays.

The chain of types, from what a job knows to what the table has::

    offset ranges ──► BatchRun{Batch}                          (drain: planned, with its tables and source)
    a task's SplitOutcome{Written} ──► Written of the batch ──► ParquetWritten, in the log
    Batch + ParquetWritten ──► Drain…, Replay…, Redrive… ─┐    (batch_commit)
    Batch + a change       ──► ChangeCommit ──────────────┤    (batch_commit; acts add their own)
    PendingDeadLetters     ──► the dead letters' commit ──┤    (pending_commit)
                                                          ▼
                                                       Intent  plain values: a table's name, an attempt
                                                          │
         a table just loaded ──► stage(table) ────────────┤    checked and staged anew after every conflict
                                                          ▼
                                                        Swap   manifests written, the catalog knows nothing
                                                          │
                                                  send, once   compared with main's snapshot (swap)
                                                          ▼
                                                     Committed found in the table by its attempt (swap)

What a batch came to, ``BatchCounts`` of its ParquetWritten, goes into BatchResult, AdoptedBatch, HeldBatch
and the books' entry beside the Batch; they repeat nothing of the two.

``swap.land`` takes an intent all the way. A table is made by ``table_creation``; what can never land is
deleted by ``sweep``; ``anchor`` tells whether main is still what the last commit left.
"""
