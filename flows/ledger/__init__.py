"""The privacy-budget ledger: what was spent on a population, what is left, and proof of both.

In: a population, its terms and what a release costs. Out: a reservation, a spend, or a refusal in
words. Signatures of its lines and anchors in other places show that somebody changed a ledger.
"""
