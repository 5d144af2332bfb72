"""Differential fuzzing: programs and inputs are drawn, run through every stage, compared bit for bit, shrunk and kept."""
