"""How claims are settled: verdicts, index proofs, and the comparison of every stage with the meaning."""
