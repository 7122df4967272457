"""Prediction: what a memory will hold, before it is made."""
