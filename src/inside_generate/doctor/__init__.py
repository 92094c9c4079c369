"""What works on this machine, and what to type for what does not: the command ``doctor``."""
