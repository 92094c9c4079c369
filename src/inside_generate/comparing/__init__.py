"""Whether two runs' files agree, and where they first part: the command ``compare``."""
