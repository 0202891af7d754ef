"""The privacy-budget ledger: what was spent on a population, and what is left.

In: a population, its terms and what a release costs. Out: a reservation, a spend, or a refusal in
words.
"""
