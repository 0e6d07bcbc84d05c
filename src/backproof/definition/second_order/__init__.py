"""A derivative of backward: carried, or refused, never dropped."""
