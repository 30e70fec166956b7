"""The servers of ``up`` and ``demo``, who runs them, and the sample stream into them."""
