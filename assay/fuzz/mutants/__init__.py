"""Mutation score: faults are planted in Assay's own source, one at a time; does a check catch each, and name the part?

mutant.py    what a mutant is, and how a process runs it
faults/      the mutants, one table for each part of the compiler
hunt.py      what a process does that runs one mutant: every check, until one notices
fork.py      a process that forks one for each mutant; hunters.py asks it
score.py     all mutants, and the table of what caught them
"""
