"""Run it: hand a subject and its cases to every law, and fold what they say."""
