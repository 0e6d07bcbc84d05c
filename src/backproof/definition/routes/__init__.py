"""Which way a call takes, and the ways but for the operator."""
