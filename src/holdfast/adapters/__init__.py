"""Holdfast inside other libraries' ways of working; the core imports none of this."""
