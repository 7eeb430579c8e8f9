"""Rows of a run for the tools that people label with, and their decisions back."""
