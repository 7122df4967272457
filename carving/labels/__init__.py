"""Extreme multi-label learning: labels as symbols behind any network."""
