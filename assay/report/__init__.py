"""How results are shown: tables on a terminal."""
