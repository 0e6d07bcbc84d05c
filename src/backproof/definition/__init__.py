"""Writing a Function: a drop-in base class, and what is refused at its definition."""
