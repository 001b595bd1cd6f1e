"""What every solver stands on: the base class, the driver, results, combinators, processes."""
