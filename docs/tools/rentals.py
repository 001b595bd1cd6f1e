"""Writes rentals.csv, the table of the first pages: 1,200 made-up flats, with categories and blanks."""

from pathlib import Path

import numpy as np
import pandas as pd

rng = np.random.default_rng(7)
n = 1200
city = rng.choice(["Bonn", "Dresden", "Hamburg", "Munich", "Ulm"], n, p=[0.2, 0.2, 0.25, 0.2, 0.15])
rooms = rng.integers(1, 6, n)
area = np.round(18 * rooms + rng.gamma(4, 5, n), 0)
built = rng.integers(1900, 2021, n).astype(float)
lift = rng.choice(["yes", "no"], n, p=[0.4, 0.6])
per_square_metre = pd.Series(city).map({"Bonn": 11.0, "Dresden": 8.5, "Hamburg": 14.0, "Munich": 19.0, "Ulm": 10.5})
rent = per_square_metre * area * np.where(built >= 2000, 1.18, 1.0) + np.where((lift == "yes") & (rooms >= 3), 60, 0)
rent = np.round(rent * rng.normal(1.0, 0.07, n), 0)
built[rng.random(n) < 0.08] = np.nan
table = pd.DataFrame({"city": city, "rooms": rooms, "area": area, "built": built, "lift": lift, "rent": rent})
table.to_csv(Path(__file__).parent.parent / "rentals.csv", index=False)
