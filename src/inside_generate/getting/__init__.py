"""Getting a model onto this disk: from the hub or from packages, checked, whole or not at all."""
