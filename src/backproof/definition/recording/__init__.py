"""Forward run outside of autograd: its ctx, and what it left there."""
