"""Creation."""
