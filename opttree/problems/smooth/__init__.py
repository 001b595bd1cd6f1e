"""The smooth problem: every split a logistic function of a steepness."""
