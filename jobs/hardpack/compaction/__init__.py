"""A pass from its plan to its commit, and the gate that judges it. Imports spark and what lies below it."""
