"""A finding as a short script that shows it where backproof is not installed."""
