"""The exercises' checks, a module for each chapter; ``checking`` says how a check answers."""
