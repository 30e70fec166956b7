"""The main path: plan offset ranges, read, decode, write, verify, commit, batch after batch."""
