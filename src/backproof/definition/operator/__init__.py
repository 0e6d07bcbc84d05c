"""The way that is right everywhere: an operator of the dispatcher for each class."""
