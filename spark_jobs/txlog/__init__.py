"""Transaction log: six phases per attempt, one small object each, and reading a listing of them."""
