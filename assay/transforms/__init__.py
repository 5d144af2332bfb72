"""One transformation of programs per file, its contract beside the code; pipeline.py is the list of their order."""
