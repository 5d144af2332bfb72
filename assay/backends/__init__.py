"""Ways to run a program: reference (its denotation), cpp (a shared library), and how kernels are scheduled."""
