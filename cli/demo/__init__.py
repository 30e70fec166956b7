"""The demo: real parts, real input, the proof, and how the tables are read."""
