"""Results of a run: best models, tables, viewing it while it runs, forecasts."""
