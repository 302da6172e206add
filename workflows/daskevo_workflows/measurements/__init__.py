"""What measured figures are shown with: the machine in words, tables, plots."""
