"""Presentation of measured figures: the machine as one line, tables, plots."""
