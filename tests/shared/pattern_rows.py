"""A row of the recording of sharding patterns."""


def row(**changed):
    alone = {"model": "small", "sequences": 2, "ranks": 1, "pattern": "one device", "mode": None, "stopped": ""}
    alone |= {
        "mesh": {},
        "median_us": 1000.0,
        "low_us": 900.0,
        "high_us": 1200.0,
        "issued_us": 950.0,
        "first_peak_nbytes": [9],
        "peak_nbytes": [7],
    }
    return alone | changed
