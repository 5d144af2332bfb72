"""assay bench: the speed of compiled code beside PyTorch, Inductor and XLA in the same process."""
