"""What leaves the library: a `Report`, and the functions that turn it into text."""

from backproof.report.report import Report

__all__ = ["Report"]
