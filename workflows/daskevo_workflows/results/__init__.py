"""What a run came to: its best models, its figures as tables, a look at it while it goes on, forecasts from it."""
