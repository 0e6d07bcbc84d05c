"""What a user points at: target strings, and the subjects and cases behind them."""

from backproof.target.place import Place, places

__all__ = ["Place", "places"]
