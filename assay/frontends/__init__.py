"""How programs come in: eager tensors over a stack of interpreters, capture of Python functions, other frameworks."""
