"""Claims as data, and the verdict that the records of a sweep give on each.

`model.py` says what a claim is, `paper1.py` is the table of them: a new claim is an entry there. `measures.py` makes
a number of a run, `sample.py` the values of a statistic over seeds, `rules.py` decides on them, `judge.py` puts the
parts of a claim together and `render.py` writes the scoreboard.
"""
