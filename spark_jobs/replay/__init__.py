"""Any offset range again, beside the live flow, in the place of its own rows."""
