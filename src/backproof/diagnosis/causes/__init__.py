"""What makes a gradient wrong, one cause a file."""
