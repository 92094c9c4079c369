"""Past one process: a model cut over several, a server under load, and what a machine can carry."""
