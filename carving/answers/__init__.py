"""Answers: how a memory is asked."""
