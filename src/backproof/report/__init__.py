"""What leaves the library: a `Report`, and the functions that turn it into text."""

from backproof.report.environment import environment
from backproof.report.report import Report, Unchecked

__all__ = ["Report", "Unchecked", "environment"]
