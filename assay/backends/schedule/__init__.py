"""Choosing schedules: choose(program, target) -> (program, plan)."""
