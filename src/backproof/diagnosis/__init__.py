"""Wrong numbers -> words and a place."""
