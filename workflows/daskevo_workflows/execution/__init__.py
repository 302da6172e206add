"""A search as it is carried out: candidates, trainers, evaluations under way, reports, limits of time and size."""
