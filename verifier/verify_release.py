"""Check a release of hushrank without hushrank.

    python3 verify_release.py FOLDER [--ledger FILE] [--anchor PLACE] [--public-key FILE]
        [--terms-key FILE] [--json]

FOLDER holds `release.json`, `ranking.csv`, `report.html` and `certificate.json`. This file needs
Python 3.11 and its standard library, and imports nothing of hushrank: read it in an evening, or
write your own. Its parts answer what a reader asks, in this order:

    1.  What is published?   every field of both documents, a closed list: a table to look up
    2.  What is claimed?     certificate.json and release.json say the same
    3.  What pays for it?    a draw for each array, or the arithmetic that recomputes it
    4.  Sensitivity          how far published counts can move, from the integers of the certificate
    5.  Noise                what each draw costs, from its sensitivity and its law
    6.  Composition          all draws together cost no more than epsilon and delta
    7.  Ledger               its chain, this release in it, totals; signatures; an anchor outside
    8.  Files                digests; and release.json, ranking.csv and report.html agree
    9.  Words                each sentence of the guarantee, from the numbers: a table to look up
    10. What is not proved   printed every time
    11. Tools                e^x, logarithms, roots and normal tails between bounds; Ed25519

Parts 4 to 7 are arithmetic with whole numbers and fractions; every rounding is outward, so that
"holds" is a proof. Sources: [AT02] Acerbi, Tasche: expected shortfall. [BW18] Balle, Wang: the
Gaussian mechanism. [BS16] Bun, Steinke: zCDP. [C98] de Caen: sums of squares of degrees. [CCW] Cai,
Chakraborty, Wang: private ranking. [CKS20] Canonne, Kamath, Steinke: the discrete Gaussian. [DPR]
Doignon, Pekec, Regenwetter: repeated insertion. [DRS22] Dong, Roth, Su: Gaussian privacy. [FHU22]
Fichtenberger, Henzinger, Upadhyay: counting under observation. [GRS12] Ghosh, Roughgarden,
Sundararajan: discrete Laplace noise. [HLP] Hardy, Littlewood, Polya: inequalities. [KOV15] Kairouz,
Oh, Viswanath: composition. [KST12] Kifer, Smith, Thakurta: objective perturbation. [ST22] Smith,
Thakurta: adaptive composition. [W65] Warner: randomised response.
"""

from __future__ import annotations

import argparse
import base64
import csv
import decimal
import functools
import hashlib
import io
import itertools
import json
import math
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from statistics import NormalDist
from typing import Any

Document = dict[str, Any]
Bounds = tuple[Fraction, Fraction]  # a number below and one above
Files = Mapping[str, bytes]  # by name
Given = bytes | None  # a file, where it is at hand
Norms = tuple[int, int]  # of a change: l1 norm, squared l2 norm
NONE, ONE = Fraction(0), Fraction(1)
ROUNDED = 1 + Fraction(1, 10**12)  # some numbers are products of floats, which may round down


class Wrong(Exception):  # noqa: N818 - it is what is found, not an accident
    """A claim does not hold; the text says which."""


@dataclass
class Findings:
    """What was found, line by line: `holds`, `WRONG`, or `open`, where nothing was proved; `newer`,
    where nothing was judged, for the release is of a newer format than this program knows."""

    lines: list[tuple[str, str]] = field(default_factory=list)

    def check(self, good: bool, holds: str = "", wrong: str = "") -> bool:
        """Note one claim; an empty text is not noted."""
        if good and holds:
            self.lines.append(("holds", printable(holds)))
        if not good:
            self.lines.append(("WRONG", printable(wrong)))
        return good

    def open(self, text: str) -> None:
        """Note what is not proved."""
        self.lines.append(("open", printable(text)))

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return self.judged and all(kind != "WRONG" for kind, _ in self.lines)

    @property
    def code(self) -> int:
        """The exit code."""
        return 5 if not self.judged else 0 if self.good else 1

    @property
    def judged(self) -> bool:
        """Whether the release is of a format that this program knows."""
        return all(kind != "newer" for kind, _ in self.lines)


def fraction(text: object) -> Fraction:
    """A number as the certificate writes it: a whole number, or text such as `7/10`."""
    if isinstance(text, bool) or not re.fullmatch(r"[0-9]{1,2000}(/[0-9]{1,2000})?", str(text)):
        raise ValueError(f"{short(text)!r} is not a whole number or a fraction, 0 or more")
    return Fraction(str(text))


def exactly(value: Any) -> Fraction:
    """A number of the certificate, or the decimals that a number of another file shows: 0.1 is
    one tenth, although the float next to it is not."""
    found = Fraction(repr(value)) if isinstance(value, float) else fraction(value)
    if found < 0:
        raise ValueError(f"{value} is below 0")
    return found


def stored(value: Any) -> Fraction:
    """A number of the certificate, or the float itself of another file."""
    return Fraction(value) if isinstance(value, float) else fraction(value)


def budget(value: Any) -> Any:
    """The same of a budget, which may be infinite or missing."""
    return value if value in (None, "inf") else exactly(value)


def moment(value: str | None) -> datetime | None:
    """A time, as a file writes it."""
    return None if value is None else datetime.fromisoformat(value)


def shown(*values: Fraction | None) -> str:
    """Numbers, for people."""
    return ", ".join("none" if each is None else f"{float(each):.9g}" for each in values)


def printable(text: str) -> str:
    """A line that shows no more than itself: what a terminal would act on is escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def short(value: Any) -> str:
    """A value, for a message."""
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def read_json(content: bytes) -> Document:
    """A JSON object in UTF-8 that all readers read alike: no key twice, and numbers are numbers."""

    def once(pairs: list[tuple[str, Any]]) -> Document:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key stands twice")
        return found

    def finite(text: str) -> float:
        if not math.isfinite(float(text)):
            raise ValueError(f"{text[:20]} is no number")
        return float(text)

    text = content.decode()
    found = json.loads(text, object_pairs_hook=once, parse_constant=finite, parse_float=finite)
    if not isinstance(found, dict):
        raise ValueError("it holds no object")
    halves = re.search(r"\\u[dD][89a-fA-F]", text) is not None  # no UTF-8 has one but as an escape
    if halves and re.search("[\ud800-\udfff]", json.dumps(found, ensure_ascii=False)):
        raise ValueError("a text has half of a character")
    return found


# 1. What is published: all that format 1 may hold, field by field


FORMAT = 1  # `hushrank_certificate`: of certificate.json, release.json and the tables beside them
# Each object: its fields and their forms. `?`: may be left out; `~`: may be null; [a*n]: a list of
# n such; {a}: an object with any keys; {item:a}: with a key for each item; <a>: the object that
# one of its fields names (`TAGGED`); `*a`: all fields of a; else a form of `SIMPLE`, or an object.
FORMS_TEXT = """
release.json: release_id=text created=time night?=date name=text about?=about job=text method=text
    code_version=text safe=bool informative=bool warnings=[text] scale=text unit?=text
    ranking=[line*n] top_k?=[item] top?=count errors?=errors privacy=privacy look?=look found?=found
    counts?=counts
    source?=row-source stream?=stream effects?=[effect*q] ties?=ties test?=[booklet]
    dif?=[differences] fit?=[item-fit]
    personal?=personal election?=election precincts?=precincts robustness?=[robustness]
    alarms?=alarms released=<released> groups?=[group]
row-source: type=text version=text
about: title=text~ question=text~ who=text~ how_recruited=text~ sample=sample~ dates=text~
    contact=text~
line: item=item label?=text~ rank=number score=number low=open high=open rank_low=count
    rank_high=count group=count low_all?=open~ high_all?=open~ rank_low_all?=count~
    rank_high_all?=count~ surely_above?=ranges~ p_best?=number~ p_top?=number~ noise_share?=number~
    se?=number~ se_noise?=number~ se_chance?=number~
errors: centre=[number*n] covariance=[[number]*n]
group: name=text own=number informative=bool ranking=[line*n] released=<released>
    election?=election effects?=[effect*q]
effect: name=text scale=number~ estimate=number low=open high=open
look: voters=text fit=int unfit=int share=number~ share_low=number share_high=number epsilon=number
    noise_scale=number people?=count~ unlisted?=int~
found: weights={item:number} threshold=number noise_scale=number
counts: epsilon=number people?=noisy-number answers?=noisy-number contradictions?=contradictions
noisy-number: count=int low=size high=size noise_scale=number
contradictions: contradicting=noisy-number consistent=noisy-number share_low=number
    share_high=number share?=number
ties: model=text parameter=open low=open high=open equals=number equals_low=number
    equals_high=number
booklet: name=text~ kr20=reliability~ separation=reliability~ ability=[number] error=[number]
    alpha?=reliability~ steps?=[step]
step: item=item points=count difficulty=number low=open high=open
reliability: estimate=number low=number high=number
item-fit: item=item statistic=number degrees=size chance=number misfits=bool steeper=bool
    discrimination?=number~ discrimination_low?=number~ discrimination_high?=number~
differences: group=text against=text items=[difference]
difference: item=item difference=number error=number low=number high=number size=text
    differs=bool
personal: features=[person-feature] of_items=[text] item_features=[[number]] known=bool ridge=number
    effects=[person-effect] coefficients=[number] centre=[number] covariance=[[number]]
    rankings=size mean_features=[number]
person-feature: name=text numbers=[number] words=[text]
person-effect: of=text by=text estimate=number low=open high=open
election: margin_deviation=number~ sure_from=number~ chances={item:number}~ rules=[rule-result]
    rounds?=[round*rounds]~
round: out=item possible=[item] reached=bool
precincts: precincts=[text] elsewhere=bool districts={[text]}~ deviation=number reach=number
    wide_deviation=number wide_reach=number margin_reach?=number~ wide_margin_reach?=number~
    votes=[[size*n]] votes_of_districts=[[size*n]]~ votes_of_all=[size*n]
rule-result: rule=text winners=[item] possible=[item] sure=bool
robustness: by=text first=item replaced=size changed=size bound=size~ noise_allowance=number~
    kind=text
alarms: pairs=[[item]]~ number=count quantile=number orders=orders passed=[passing]
passing: item=item passed=item
stream: stream=text number=count nights=count first=date participations=count~ gap=count~
    participation?=metered~ window=count~ coefficients=[size] noise_variance=number
    shown_variance=number noisy=[int*drawn] answers=[number*shown]
privacy: unit=text adjacency=text~ epsilon=open delta=number rho=open~ mechanism=text
    noise_scale=number~ noise_variance=number~ sensitivity=number~ sensitivity_norm=text~
    sensitivity_l1=size~ sensitivity_l2_squared=size~ max_contributions=count~ per_item_cap=count~
    distinct_pairs=bool names_per_person?=count~ groups_per_answer?=count~ ties=text~
    parameters=parameters statement=[text] not_protected=[text] theorem=text erratum=text~
    bits?=bits~ reconstructed?=bool
bits: noise?=[source] randomisation?=[source] row-choice?=[source] coins?=[source]
win-counts: kind=text row_weight=count wins={item:number}
win-loss-counts: kind=text row_weight=count wins={item:number} losses={item:number}
pair-counts: kind=text row_weight=count items=items wins=[[number*n]*n] asked?=[[size]*n]~
outcome-counts: kind=text row_weight=count items=items pairs=[[size]*n]~ compared=[[size]*n]~
    wins=[[int]*n]~
tie-counts: kind=text items=items wins=[[int*n]*n] ties=[[int*n]*n]
scores: kind=text scores={item:number} exposures={item:number}~
scores-and-effects: kind=text scores={item:number} effects={number} units=[number*3]
    of_scores=[int*n] between=[[int*q]*n] of_effects=[int*pairs_of_effects]
top-list: kind=text items=[item*k]
right-wrong-counts: kind=text items=items pairs=[[size]*n]~ right_wrong=[[int*n]*n]~
sheet-totals: kind=text answer_weight=count sheet_weight=count right_minus_wrong={item:int}
    booklets=[[item]]~ knots=[[size]] sheets=[[int]] bands?=[[size]]~ by_band?=[{item:int}]~
    anchors?={number}~
point-totals: kind=text answer_weight=count sheet_weight=count share=count points={item:[int]}
    knots=[size] sheets=[int]
randomised-answers: kind=text items=items epsilon=number people=[size*answers] sums=[[int*n]*n]
    by_epsilon?=[people-of-level]~
people-of-level: epsilon=number people=[size*answers]
private-sums: kind=text items=items unit=number pairs=[[size]*n]~ s=[[int]*n]~ w=[[int]*n]~ g=int
    chosen=chosen~ alike?=alike~ presentation?=presentation~
alike: s=[[int]*n] w=[[int]*n] squares=[[int]*n] squared_weights=[[int]*n]
presentation: parts=[[int*5]*20] shown=[[size*n]*n] unbalanced=size share=number~ low=number~
    high=number~ spread=number~ spread_low=number~ spread_high=number~
chosen: low=number high=number answers=[size*20] information=[number*20] weight_of_lies=number
private-rankings: kind=text items=items rankings=[size*lengths] wins=[[int*n]*n]
    places=[[int*longest]*n] moments=[[int*n]*n] by_place=[[int*cells]*place_pairs]~
    by_epsilon?=[rankings-of-level]~
rankings-of-level: epsilon=number rankings=[size*lengths] wins=[[int*n]*n]
    places=[[int*longest]*n] moments=[[int*n]*n] by_place=[[int*cells]*place_pairs]~
private-pairs: kind=text items=items rankings=[size*lengths] wins=[[int*n]*n] asked=[[int*n]*n]
    squares=[[int*n]*n] moments=[[int*n]*n] by_epsilon?=[answers-of-level]~
    by_profile?=[answers-of-profile]~
answers-of-profile: features={value} rankings=[size*lengths] wins=[[int*n]*n] asked=[[int*n]*n]
    squares=[[int*n]*n] moments=[[int*n]*n]
answers-of-level: epsilon=number pairs=count rankings=[size*lengths] wins=[[int*n]*n]
    asked=[[int*n]*n] squares=[[int*n]*n] moments=[[int*n]*n]
margin-counts: kind=text items=items weights={count} margins=[[int*n]*n] rankings=int
above-counts: kind=text items=items weights={count} above=[[int*n]*n] squares=[int*n]~ rankings=int~
net-sums: kind=text items=items weights={count} nets=[int*n] squares=[int*n] rankings=int
place-counts: kind=text items=items weights={count} places=[[int*columns]*n]
precinct-counts: kind=text items=items weights={count} precincts=[[int*n]] districts=[[int*n]]~
    totals=[int*n]
round-counts: kind=text items=items weights={count} rounds=[[int~*n]*rounds] exhausted=[int*rounds]
parameters of win-counts: *weighted
parameters of win-loss-counts: link=text *weighted
parameters of pair-counts: link=text pairs=size link_chosen_by_likelihood?=bool estimator?=text
    *fit-of-pairs *weighted
parameters of outcome-counts: link=text public_graph=bool public_graph_statement=text
    pairs_compared=size
parameters of tie-counts: link=text tie_model=text pairs=size *fit-of-pairs
parameters of scores: constants=text public_graph=bool public_graph_statement?=text *optimum
    expected_comparisons?=number stated_exposures?=text epsilon_by_the_proof?=number
    exposures_epsilon?=number exposures_noise_scale?=number exposures_sensitivity_l1?=count
parameters of scores-and-effects: covariates=text share_of_effects=number *optimum
parameters of top-list: k=count
parameters of right-wrong-counts: graph=text pairs=count edge_probability?=number degree?=count
    graph_chosen_because?=text booklets?=count estimator?=text
parameters of sheet-totals: step_of_scores=count booklets?=count bands?=count
parameters of point-totals: step_of_scores=count
parameters of randomised-answers: epsilon_of_a_person=number epsilon_of_an_answer=text debiased=bool
    pairs=count levels_of_epsilon?=text after_shuffling?=text
    epsilon_of_a_person_after_shuffling?=number delta_after_shuffling?=number people?=count
parameters of private-sums: epsilon_of_an_answer=text epsilon_of_a_person_at_most?=number
    flip_probability?=number noise_scale_of_an_answer?=number *shuffled information_per_pair?=number
    information_G?=number predicted_typical_error?=number predicted_largest_error?=number link?=text
    link_chosen_by_likelihood?=bool ridge?=number smallest_curvature?=number is_minimum?=bool
    weights?=text effective_answers?=number
parameters of private-rankings: epsilon_of_a_whole_ranking_at_most=number *private-lists
parameters of private-pairs: pairs_answered=count hidden=text features_of_people?=text
    *private-lists
parameters of margin-counts: weight_of_margins=count weight_of_rankings=count longest_ranking=count
    items_at_one_rank?=text contradicted_margins=number fewest_possible_contradicted_margins=number
    proven_best=bool widened_for_sets_of_a_person_by?=number
parameters of above-counts: weight_of_above=count weight_of_squares?=count weight_of_rankings?=count
    *lists
parameters of net-sums: weight_of_nets=count weight_of_squares=count weight_of_rankings=count *lists
parameters of place-counts: weight_of_places=count longest_ranking=count sum_of_footrules=number
    items_at_one_rank?=text
parameters of precinct-counts: weight_of_precincts=count weight_of_districts?=count
    weight_of_totals=count longest_ranking=count items_at_one_rank?=text
parameters of round-counts: weight_of_rounds=count longest_ranking=count items_at_one_rank?=text
certificate.json: hushrank_certificate=count release=identity files={digest} guarantee=guarantee
    domain=domain rows=rows public_facts=[fact] draws=[<draw>] bits=bits~ reconstructed=bool
    ledger=ledger~ software=software post_processing=[text] errata=[text] not_proved=[text]
    audit?=[audit]
identity: release_id=text population=text job=text method=text night=date~ created=time safe=bool
guarantee: unit=text adjacency=text~ epsilon=fraction delta=fraction rho=fraction~ charged=cost
    statement=[text] not_protected=[text] theorem=text
domain: items=count catalogue_sha256=digest bounds=bounds groups=[text] other_rows=bool ties=text~
    stream=nights~
bounds: max_contributions=count~ per_item_cap=count~ distinct_pairs=bool bounding=text
    max_weight=fraction~ names_per_person?=count~ groups_per_answer?=count~
nights: stream=text night=count nights=count participations=count~ gap=count~
    participation?=terms_of_rows~ window=count~
terms_of_rows: rows?=count pair_gap?=count squares?=count gap?=count burst=count refill?=fraction~
metered: rows?=count pair_gap?=count squares?=count gap?=count burst=count refill?=number~
rows: kind=text settings=<settings> schedule=schedule rules=[text]
schedule: timezone?=text partition?=text~ window?=text~ epoch?=text~ empty?=text
comparisons: *settings layout?=text columns?=roles design?=text words?=outcome_words~
    features?=[feature] ties?=text tie_model?=text pairs?=count
roles: user?=text left?=text right?=text outcome?=text~ winner?=text~ winner_values?=outcome_words~
    loser?=text~ event?=text~ epsilon?=text~ weight?=text~ first?=text~ pairs?={[text]}~
outcome_words: left?=[text] right?=[text] tie?=[text]
feature: column?=text~ left?=text~ right?=text~ scale=number name?=text~
rankings: *settings layout?=text columns?=list_roles contest?=text~ best?=text ties?=text
    max_length?=count~ unlisted?=text not_ranked?=[text] overvotes?=text skipped?=text
    person_features?={[value]}~ overvoted?=[text] repeated?=text write_ins?=text~
    no_valid_vote?=text~
list_roles: user?=text~ item?=text~ rank?=text~ ranking?=text~ items?={text}~ places?=[text]~
    best?=text~ worst?=text~ shown?=[text]~ sets?=[set]~ contest?=text~
    epsilon?=text~ left?=text~ right?=text~ outcome?=text~ length?=text~
set: best=text worst=text shown?=[text]~ items?=[text]~
responses: *settings layout?=text columns?=answer_roles words?=answer_words~ duplicates?=text
    missing?=text~ booklets?={[text]}~ points?=points~ key?=key~
answer_roles: user?=text item?=text~ correct?=text~ order?=text~ booklet?=text~ epsilon?=text~
answer_words: right?=[text] wrong?=[text] blank?=[text]
fact: fact=text value=text~ sha256=digest~
cost: epsilon=fraction delta=fraction rho=fraction~ l2_squared=count
law: kind=text scale=fraction step=fraction
sensitivity: l1=size l2_squared=size
discrete-laplace | discrete-gaussian | none: *draw entries=count~ sensitivity=sensitivity law=law
gaussian-threshold: *draw entries=count~ sensitivity=sensitivity law=law threshold=count
objective-perturbation-laplace | objective-perturbation-gaussian: *draw loss=loss norm=norm
    sensitivity=fraction scale=fraction ridge=fraction share=fraction determinant_epsilon=fraction
    constants=text public_graph=bool laws=[law] cover=cover~
loss: link=text slope=fraction kappa1=fraction kappa2=fraction even_curvature=bool
cover: tolerance=fraction values=count apart=count law=law epsilon=fraction
randomised-response: *law-of-answers budget=text thresholds=[threshold] most_answers=count~
    cost=cost
threshold: epsilon=fraction answers=count threshold=count
laplace-response: *law-of-answers budget=text grid=count epsilons=[fraction] laws=[law]
    most_answers=count~ cost=cost
mallows: *law-of-answers longest=count tables=[insertions] whole_ranking=fraction
    most_rankings=count cost=cost
insertions: epsilon=fraction weights=[int]
laplace-ranks: *law-of-answers longest=count grid=count sensitivity=sensitivity epsilons=[fraction]
    laws=[law] whole_ranking=fraction most_rankings=count cost=cost
random-pairs: *law-of-answers hide=text pairs=count epsilon=fraction threshold=count
    levels?=[pair-level]~ most_rankings=count cost=cost
pair-level: epsilon=fraction pairs=count threshold=count
ledger: population=text protects=text~ unit=text adjacency=text attempt=count entry=position
    paid_by=position budget=budget period_start=time~ period_end=time~ period=total lifetime=total
    same_input=[other] together?=total~ terms?=[terms-set]
terms-set: line=count time=time budget=budget by=text reason=text approved_by=text~
position: line=count hash=digest previous=digest time=time
budget: epsilon=fraction delta=fraction refresh=text~ lifetime_epsilon?=fraction~
total: spends=[spends] sum=cost epsilon=fraction delta=fraction rule?=text~ first?=cost~
spends: times=count epsilon=fraction delta=fraction rho=fraction~ l2_squared=count
other: population=text stated_other_people=bool period=total~ lifetime=total~ stated_by?=text~
    stated_at?=time~
software: hushrank=version commit=commit~ modified=bool~ package_sha256=digest~ python=version~
    libraries=libraries
libraries: apache-beam?=version dp-accounting?=version numpy?=version opendp?=version
    pyarrow?=version scipy?=version
audit: pair=text epsilon_lower=fraction confidence=fraction when=time stated=fraction
*settings: kind=text format?=text~ partitions?=[text] multiline?=bool delimiter?=text encoding?=text
    decimal?=text header_rows?=count on_bad_rows?=text first_code?=int source?=transform
    version?=text
transform: type=text
*weighted: bounding?=text units_of_a_comparison?=count sum_of_squared_weights?=number
    design_effect?=number max_weight?=number
*fit-of-pairs: design_of_chance_fits=bool pairs_left_out_of_the_fit=size
*optimum: link=text gamma=number lambda?=number epsilon_det?=number epsilon_out?=number
    solver_tolerance?=number output_noise_deviation?=number
*shuffled: epsilon_of_an_answer_after_shuffling?=number delta_after_shuffling?=number
    fewest_answers_to_a_pair?=count
*lists: longest_ranking=count items_at_one_rank?=text rankings_with_noise?=number
    drawn_to_zero_by?=number ridge?=number disagreements?=number
    fewest_possible_disagreements?=number proven_best?=bool widened_for_sets_of_a_person_by?=number
*private-lists: epsilon_of_a_ranking=text epsilon_of_a_person_at_most?=number mechanism_chosen?=text
    debiased=bool longest_ranking=count items_at_one_rank?=text drawn_to_zero_by?=number
    levels_of_epsilon?=text weights?=text effective_rankings?=number
    ridge?=number disagreements?=number fewest_possible_disagreements?=number proven_best?=bool
*law-of-answers: mechanism=text what=text derivation=path at_source=bool
*draw: mechanism=text what=text derivation=path formula=[text] inputs=inputs cost=cost
*any-job: look_epsilon?=number look_noise_scale?=number counts_epsilon?=number
    method_chosen_because?=text
    names_rho?=number names_delta?=number names_of_a_person?=count ranking_rho?=number
"""


def forms_of(text: str) -> dict[str, str]:
    """The objects by name, each with all of its fields."""
    found: dict[str, str] = {}
    for line in re.sub(r"\n    ", " ", text.strip()).splitlines():
        names, _, fields = line.partition(": ")
        found |= dict.fromkeys(names.split(" | "), fields)
    for name, fields in found.items():
        for more in re.findall(r"\*[a-z-]+(?= |$)", fields):
            fields = fields.replace(more, found[more])
        found[name] = fields
    return found


FORMS = forms_of(FORMS_TEXT)
TAGGED = {  # by which field an object names its kind, and the kinds that there are
    "<released>": ("kind", {name[14:] for name in FORMS if name.startswith("parameters of ")}),
    "<settings>": ("kind", {"comparisons", "rankings", "responses"}),
    "<draw>": (
        "mechanism",
        {name for name in FORMS if "derivation=" in FORMS[name] and name[0] != "*"},
    ),
}


def is_number(value: object) -> bool:
    """A number, and no truth value."""
    return type(value) in (int, float)


def is_text(pattern: str) -> Callable[[Any], bool]:
    """What a text has to look like."""
    return lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value))


def is_time(value: object) -> bool:
    """A time with its zone."""
    return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None


def values_of(value: object) -> Iterable[object]:
    """The values of an object or of a list, or the value itself."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else [value]


SIMPLE: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int,
    "size": lambda value: type(value) is int and value >= 0,
    "count": lambda value: type(value) is int and value >= 1,
    "number": is_number,
    "open": lambda value: is_number(value) or value in ("inf", "-inf"),
    "value": lambda value: is_number(value) or isinstance(value, str),
    "time": is_time,
    "date": is_text(r"\d{4}-\d\d-\d\d"),
    "ranges": is_text(r"(\d+(\.\.\d+)?( \d+(\.\.\d+)?)*)?"),
    "orders": is_text(r"[<>=]+"),
    "digest": is_text("[0-9a-f]{64}"),
    "commit": is_text("[0-9a-f]{40}"),
    "version": is_text(r"\d[0-9a-z.+!_-]{0,60}"),
    "fraction": is_text("inf|(0|[1-9][0-9]{0,1999})/[1-9][0-9]{0,1999}"),
    "source": is_text("system|opendp|seeded|simulated"),
    "path": is_text(r"[a-z_]{1,40}(\.[a-z_]{1,40}){0,5}"),
    "norm": is_text("l1|l2"),
    "key": lambda value: all(isinstance(each, str) for each in values_of(value)),
    "points": lambda value: all(type(each) is int and each >= 1 for each in values_of(value)),
    "sample": is_text("drawn|everybody|open"),
}


@dataclass(frozen=True)
class Sizes:
    """What the lengths of lists go by: `n`, `q`, ...; the items, and what was drawn."""

    of: Mapping[str, int]
    items: frozenset[str]
    kind: str
    of_effects: frozenset[str]  # parameters, whose names users choose


def sizes_of(release: Document, certificate: Document) -> Sizes:
    """The sizes that a release states, be they true or not."""
    released, domain = release["released"], certificate["domain"]
    names, told = [line["item"] for line in release["ranking"]], release.get("stream")
    n, q, kind = len(names), len(release.get("effects") or ()), released["kind"]
    parameters = release["privacy"]["parameters"]
    if len({*names}) < n or n != domain["items"]:
        raise Wrong(f"number of items: {domain['items']}, and release.json ranks {len({*names})}")
    longest = parameters.get("longest_ranking") or n
    of = {
        "n": n,
        "cells": n * n,
        "q": q,
        "3": 3,
        "5": 5,
        "20": 20,
        "k": parameters.get("k"),
        "rounds": n - 1,
    }
    of |= {"longest": longest, "lengths": longest + 1, "place_pairs": math.comb(longest + 1, 3)}
    below = certificate["rows"]["settings"].get("unlisted") == "below"
    of["columns"] = longest + below * min(longest, n - 1)  # left out by lists of 1, 2, ... items
    of["answers"] = (release["privacy"]["max_contributions"] or 0) + 1
    if q:
        of["pairs_of_effects"] = q * (q + 1) // 2 - (release["effects"][0]["scale"] is None)
    if told is not None:
        cells = CELLS_OF_NIGHT.get(kind, n) * n
        of["drawn"] = cells * bundle_of(certificate).groups
        of["shown"] = min(told["window"] or told["number"], told["number"])
    numbers = ("epsilon", "noise_scale", "sensitivity_l1")
    scales = {f"information_{name}_{number}" for name in SUMS for number in numbers}
    scales |= {f"scale_of_{each['name']}" for each in release.get("effects") or ()}
    return Sizes(of, frozenset(names), kind, frozenset(scales))


def misfits(form: str, value: Any, place: str, sizes: Sizes) -> Iterator[str]:
    """Where a value is not of its form; a sentence for each place."""
    if form.endswith("~"):
        if value is not None:
            yield from misfits(form[:-1], value, place, sizes)
        return
    if form.startswith("["):
        sized = re.fullmatch(r"(.+)\*(\w+)", form[1:-1])
        inner, size = sized.groups() if sized else (form[1:-1], "")
        if not isinstance(value, list) or (size and len(value) != sizes.of.get(size)):
            long = f" of length {sizes.of.get(size)}" if size else ""
            yield f"{place} is no list{long}"
        elif inner in SIMPLE:
            if not all(map(SIMPLE[inner], value)):
                yield f"{place} is not a list of {inner}"
        else:
            for at_place, each in enumerate(value):
                yield from misfits(inner, each, f"{place}.{at_place}", sizes)
    elif form.startswith("<"):
        field_, known = TAGGED[form]
        named = value.get(field_) if isinstance(value, dict) else None
        if named not in known:
            yield f"{place} is of a kind that format {FORMAT} does not have: {short(named)}"
        else:
            yield from misfits_of_object(named, value, place, sizes)
    elif form.startswith("{"):
        inner, of_items = form[1:-1].removeprefix("item:"), form.startswith("{item:")
        if not isinstance(value, dict) or (of_items and value.keys() != sizes.items):
            yield f"{place} has not one number for each item"
        else:
            for name, each in value.items():
                yield from misfits(inner, each, f"{place}.{short(name)}", sizes)
    elif form == "item":
        if value not in sizes.items:
            yield f"{place} is no item that is ranked: {short(value)}"
    elif form == "items":
        if not isinstance(value, list) or sorted(value) != sorted(sizes.items):
            yield f"{place} are not the items that are ranked"
    elif form in SIMPLE:
        if not SIMPLE[form](value):
            yield f"{place} is not of the form {form}: {short(value)}"
    elif form != "inputs":  # which `count_loss` recomputes
        own = f"parameters of {sizes.kind}" if form == "parameters" else form
        yield from misfits_of_object(own, value, place, sizes)


def misfits_of_object(form: str, value: Any, place: str, sizes: Sizes) -> Iterator[str]:
    """The same of an object: it has these fields, and no other."""
    fields = fields_of(form)
    if not isinstance(value, dict):
        yield f"{place} is no object"
        return
    for name, each in value.items():
        where = f"{place}.{short(name)}"
        if name in fields:
            yield from misfits(fields[name][0], each, where, sizes)
        elif form != "parameters of scores-and-effects" or name not in sizes.of_effects:
            yield f"{where}: format {FORMAT} has no such field"
    for name, (_, needed) in fields.items():
        if needed and name not in value:
            yield f"{place} says nothing of {name}"


@functools.cache
def fields_of(form: str) -> dict[str, tuple[str, bool]]:
    """The fields of an object, each with its form and whether it has to be there."""
    extra = FORMS["*any-job"] if form.startswith("parameters of ") else ""
    pairs = (each.partition("=")[::2] for each in f"{FORMS[form]} {extra}".split())
    return {name.rstrip("?"): (own, not name.endswith("?")) for name, own in pairs}


# 2. What is claimed?


ABOVE_ZERO = {
    *("items", "max_contributions", "per_item_cap", "max_weight", "nights", "night", "gap"),
    *("names_per_person", "groups_per_answer"),
    *("participations", "window", "times", "line", "attempt", "most_answers", "most_rankings"),
    *("longest", "grid", "pairs", "answers", "threshold", "values", "apart", "weights"),
    *("scale", "step", "ridge", "share", "slope", "kappa1", "kappa2", "pair_gap"),
}
CELLS_OF_NIGHT = {"win-counts": 1, "win-loss-counts": 2}  # of an item in a stream; of pairs: n
FEW = {"items", "nights", "times", "longest", "values", "pairs"}  # what is counted here, one by one


def check_form(certificate: Document, release: Document, say: Findings) -> None:
    """That both documents have the fields of the format and no other, each of its form, and numbers
    that are possible."""
    version = certificate.get("hushrank_certificate")
    other = f"hushrank_certificate is {short(version)}; this program reads format {FORMAT}"
    say.check(version == FORMAT, wrong=other)
    sizes = sizes_of(release, certificate)
    for name, document in (("certificate.json", certificate), ("release.json", release)):
        wrong = list(itertools.islice(misfits(name, document, name, sizes), 20))
        for text in wrong:
            say.check(False, wrong=text)
        if not wrong:
            say.check(True, f"{name} has the fields of format {FORMAT}, and no other")

    def look(name: str, value: Any) -> None:
        if isinstance(value, (dict, list)):
            pairs = value.items() if isinstance(value, dict) else ((name, each) for each in value)
            for key, each in pairs:
                look(key, each)
        elif isinstance(value, float) or (isinstance(value, int) and value < 0):
            raise Wrong(f"{name} is {short(value)}: numbers are whole, or fractions, and 0 or more")
        elif name in ABOVE_ZERO and value is not None and fraction(value) == 0:
            raise Wrong(f"{name} is 0, and must be more")
        elif name in FEW and value is not None and value > 10**6:
            raise Wrong(f"{name} is {short(value)}, more than anybody has")

    unit, protects = (certificate["guarantee"][name] for name in ("unit", "epsilon"))
    if unit not in ("user", "comparison", "local"):
        raise Wrong(f"unit is {short(unit)}, of which nobody knows how many rows it has")
    if unit != "user" and certificate["domain"]["bounds"].get("names_per_person"):
        raise Wrong("names_per_person is stated, and the unit is no person")
    for part in ("guarantee", "domain", "ledger", *(["draws"] if protects != "inf" else ())):
        look(part, certificate[part])


SAME = """
    release: release_id job method night safe created population=name
    guarantee: unit=privacy.unit adjacency=privacy.adjacency epsilon=privacy.epsilon
    guarantee: delta=privacy.delta rho=privacy.rho statement=privacy.statement
    guarantee: not_protected=privacy.not_protected theorem=privacy.theorem
    domain: ties=privacy.ties bounds.per_item_cap=privacy.per_item_cap
    domain: bounds.distinct_pairs=privacy.distinct_pairs
    domain: bounds.max_contributions=privacy.max_contributions
"""  # places in the certificate, and what stands in release.json there, or under the place named
OBJECTIVE = """
    draw: mechanism=privacy.mechanism scale=privacy.noise_scale sensitivity=privacy.sensitivity
    draw: ridge=privacy.parameters.gamma loss.link=privacy.parameters.link
    draw: cover.tolerance=privacy.parameters.solver_tolerance
"""
COUNTS = """
    draw: sensitivity.l1=privacy.sensitivity_l1
    draw: sensitivity.l2_squared=privacy.sensitivity_l2_squared
"""


STORED = {
    *("scale", "noise_scale", "ridge", "gamma", "sensitivity", "tolerance", "solver_tolerance"),
}


def at(document: Document, path: str) -> Any:
    """What stands at a place such as `domain.bounds`; numbers of budgets and times as such."""
    found: Any = document
    for name in path.split("."):
        found = found[name]
    name = path.rpartition(".")[2]
    if name in ("epsilon", "delta", "rho"):
        return budget(found)
    if name in STORED and found is not None:
        return stored(found)
    return moment(found) if name == "created" else found


def pairs_of(table: str, one: Document, other: Document) -> dict[str, tuple[Any, Any]]:
    """What two documents say, by the last part of each name that the second has in a table."""
    pairs = {}
    for line in table.strip().splitlines():
        part, names = line.split(":")
        for name in names.split():
            place, _, there = name.partition("=")
            found = at(one, f"{part.strip()}.{place}"), at(other, there or place)
            pairs[(there or place).rpartition(".")[2]] = found
    return pairs


def check_claim(certificate: Document, release: Document, say: Findings) -> None:
    """That release.json says of itself what the certificate says of it."""
    privacy, domain = release["privacy"], certificate["domain"]
    night, groups = domain["stream"], release.get("groups") or ()
    table = (release.get("precincts") or {}).get("precincts")
    names = sorted(line["item"] for line in release["ranking"])
    listed = json.dumps(names, ensure_ascii=False, separators=(",", ":")).encode()
    pairs = pairs_of(SAME, certificate, {"night": None, **release})
    if certificate["guarantee"]["unit"] == "comparison":
        del pairs["max_contributions"]  # which bounds nobody's comparisons
    erratum, reconstructed = privacy.get("erratum"), privacy.get("reconstructed", False)
    pairs |= {
        "errata": (certificate["errata"], [erratum] if erratum else []),
        "reconstructed": (certificate["reconstructed"], reconstructed),
        "groups": (domain["groups"], table or [each["name"] for each in groups]),
        "names of items": (domain["catalogue_sha256"], hashlib.sha256(listed).hexdigest()),
        "random bits": (certificate["bits"], privacy["bits"]),
        "names of a person": (
            domain["bounds"].get("names_per_person"),
            privacy.get("names_per_person"),
        ),
        "groups of an answer": (
            domain["bounds"].get("groups_per_answer"),
            privacy.get("groups_per_answer"),
        ),
    }
    if night or release.get("stream"):
        own = {**release["stream"], "night": release["stream"]["number"]}
        if (metered := own.get("participation")) and metered.get("refill") is not None:
            own["participation"] = {**metered, "refill": str(exactly(metered["refill"]))}
        pairs |= {f"{name} of the stream": (night[name], own[name]) for name in night}
    for draw in certificate["draws"] if certificate["guarantee"]["epsilon"] != "inf" else ():
        pairs |= numbers_of(draw, release)
    settings, source = certificate["rows"]["settings"], release.get("source") or {}
    if "version" in settings or source:
        read = settings.get("source", {}).get("type", "PTransform")
        version = str(settings.get("version")).replace("{date}", str(release.get("night")))
        said = source.get("type"), source.get("version")
        pairs["source and version of the rows"] = (read, version), said
    wrong = {name: each for name, each in pairs.items() if each[0] != each[1]}
    for name, (claimed, found) in wrong.items():
        text = f"{name}: the certificate says {short(claimed)}, release.json {short(found)}"
        say.check(False, wrong=text)
    if not wrong:
        say.check(True, f"release.json agrees with the certificate in {', '.join(pairs)}")
    if source:
        read = f"version {source['version']}, read by Beam's {source['type']}"
        say.check(True, f"the rows are {read}: so the operator names them, and nobody proved it")
    check_facts(certificate, release, say)


def numbers_of(draw: Document, release: Document) -> dict[str, tuple[Any, Any]]:
    """What a draw has, and what release.json says of it, by name."""
    derivation, law, privacy = derivation_of(draw), draw.get("law"), release["privacy"]
    if derivation in OPTIMISED:
        public = draw["public_graph"], privacy["parameters"].get("public_graph", False)
        return pairs_of(OBJECTIVE, {"draw": draw}, release) | {"public_graph": public}
    if law is None:
        return {"mechanism": (draw["mechanism"], privacy["mechanism"])}
    scale = fraction(law["scale"]) * fraction(law["step"])
    if derivation == "votes_sensitivity":
        return {"scale of the look": (scale, at(release, "look.noise_scale"))}
    if derivation in QUERIES:
        return {f"scale of {name}": (scale, told) for name, told in scales_of(derivation, release)}
    if derivation == OF_NAMES:
        least = draw["threshold"] * fraction(law["step"])
        return {
            "scale of the weights of names": (scale, at(release, "found.noise_scale")),
            "threshold of names": (least, at(release, "found.threshold")),
        }
    if derivation in ("exposures_sensitivity", "calibrate_covariate_mle"):
        stated = privacy["parameters"].items()
        scales = [stored(value) for name, value in stated if name.endswith("_noise_scale")]
        return {f"scale of {draw['what']}": (True, fraction(law["scale"]) in scales)}
    one_shot = derivation == "one_shot_sensitivity"  # whose sensitivity is not one of counts
    found: dict[str, tuple[Any, Any]] = {"noise_scale": (scale, at(privacy, "noise_scale"))}
    named = "one-shot-laplace" if one_shot else draw["mechanism"]
    found["mechanism"] = named, privacy["mechanism"]
    return found if one_shot else found | pairs_of(COUNTS, {"draw": draw}, release)


def scales_of(derivation: str, release: Document) -> list[tuple[str, Fraction]]:
    """The scale that release.json states for each number of a query beside the ranking."""
    size, name = QUERIES[derivation]
    own = ("contradictions.contradicting", "contradictions.consistent") if size > 1 else (name,)
    return [(each, at(release, f"counts.{each}.noise_scale")) for each in own]


def check_facts(certificate: Document, release: Document, say: Findings) -> None:
    """What can be compared of secret bits and public facts."""
    guarantee, facts = certificate["guarantee"], certificate["public_facts"]
    central = guarantee["unit"] != "local" and guarantee["epsilon"] != "inf"
    bits = {source for sources in (certificate["bits"] or {}).values() for source in sources}
    unsafe = f"the release is called safe, and its random bits came from {', '.join(bits)}"
    say.check(not (release["safe"] and bits - {"system", "opendp"}), wrong=unsafe)
    wanted = [] if release.get("found") else [certificate["domain"]["catalogue_sha256"]]
    wanted += [FOUND_BY] * (release.get("found") is not None)
    if release["privacy"]["parameters"].get("public_graph"):
        wanted.append(release["privacy"]["parameters"].get("public_graph_statement"))
    if central and guarantee["adjacency"] == "replace-one":
        units = "people" if guarantee["unit"] == "user" else "rows"
        wanted.append(f"how many {units} there are")
    listed = {each[key] for each in facts for key in ("fact", "value", "sha256")}
    lacking = [short(each) for each in wanted if each not in listed]
    say.check(not lacking, wrong=f"public_facts does not name: {', '.join(lacking)}")
    if release["safe"] is not True:
        say.open("the release says itself that it is not safe: NOT FOR PUBLICATION")
    if certificate["reconstructed"]:
        say.open("the law of the noise: it was not stored with the noise, but worked out again")


# 3. What pays: a draw for each array of numbers, or the arithmetic that recomputes it


KIND_OF = {  # what each method may publish
    "noisy-counts": ("win-counts",),
    "win-loss": ("win-loss-counts",),
    "noisy-pairs": ("pair-counts", "outcome-counts", "tie-counts"),
    "perturbed-mle": ("scores", "scores-and-effects"),
    "noisy-objective": ("scores",),
    "one-shot": ("top-list",),
    "spectral": ("right-wrong-counts",),
    "totals": ("sheet-totals", "point-totals"),
    "spectral-rr": ("randomised-answers",),
    **dict.fromkeys(("debiased-rr", "classic-rr", "laplace-rr", "rr-counts"), ("private-sums",)),
    "borda": ("private-rankings", "private-pairs", "net-sums"),
    "bradley-terry": ("private-rankings", "private-pairs", "above-counts"),
    "kemeny": ("private-rankings", "private-pairs", "above-counts", "margin-counts"),
    "footrule": ("place-counts",),
    "precinct-table": ("precinct-counts",),
    "instant-runoff": ("round-counts",),
    "personalized": ("private-pairs",),
}
KIND_OF["auto"] = tuple(  # which takes one of these
    itertools.chain(
        *map(
            KIND_OF.__getitem__,
            ("noisy-counts", "win-loss", "noisy-pairs", "perturbed-mle", "totals", "spectral"),
        )
    )
)
OF_NAMES = "names_sensitivity"
# Queries beside the ranking: what each counts, in how many numbers, and its name in release.json.
QUERIES = {
    "people_sensitivity": (1, "people"),
    "answers_sensitivity": (1, "answers"),
    "contradictions_sensitivity": (2, "contradictions"),
}
BEFORE = ("votes_sensitivity", OF_NAMES, *QUERIES)  # draws before those of the ranking
LAWS_OF = {  # by which what is privatised one by one may be drawn
    "private-sums": ("randomised-response", "laplace-response"),
    "randomised-answers": ("randomised-response",),
    "private-rankings": ("mallows", "laplace-ranks"),
    "private-pairs": ("random-pairs",),
}
ENTRIES: dict[str, Callable[[int, int, int], int]] = {  # of noise: of n items, groups and pairs
    "win-counts": lambda n, groups, pairs: groups * n,
    "win-loss-counts": lambda n, groups, pairs: 2 * groups * n,
    "pair-counts": lambda n, groups, pairs: 2 * groups * pairs,
    "tie-counts": lambda n, groups, pairs: 3 * groups * pairs,
    "top-list": lambda n, groups, pairs: n,
}
OF_SHEETS = ("sheet-totals", "point-totals")
# Kinds that may be told by group.
GROUPED = {
    *("win-counts", "win-loss-counts", "pair-counts", "tie-counts", "point-totals", "sheet-totals"),
    *("above-counts", "margin-counts", "net-sums", "place-counts", "precinct-counts"),
    "scores-and-effects",
}
COUNTED_LISTS = (
    *("above-counts", "margin-counts", "net-sums", "place-counts", "round-counts"),
    "precinct-counts",
)
OF_PAIRS = ("condorcet", "smith", "copeland", "schulze", "ranked-pairs", "minimax", "borda")
NAMED_PARTS = ("above", "places", "nets", "squares", "rankings")  # each has a weight, or 0
LEVELS = ("precincts", "districts", "totals")  # of a table of first places
RANKED_PARTS = (*NAMED_PARTS, "margins", "rounds", *LEVELS)
# Of other kinds a certificate states none: they go by which pairs met, or by the longest ranking.
Needed = tuple[str, int | None]  # derivation, or law of answers; entries
SUMS = ("of_scores", "between", "of_effects")  # of information, in the order of their `kind`


def is_weighted(certificate: Document) -> bool:
    """Whether rows have weights, so that the sum of their squares gets noise, too."""
    bounds = certificate["domain"]["bounds"]
    return bounds["bounding"] == "weights" or bounds["max_weight"] is not None


def is_public(certificate: Document, release: Document) -> bool:
    """Whether only the winners are protected, and not who met whom."""
    draws = certificate["draws"]
    kind = release["released"]["kind"]
    return kind == "outcome-counts" or any(each.get("public_graph") for each in draws)


def draws_needed(certificate: Document, release: Document) -> list[Needed]:
    """What has to be drawn for the numbers that are published, one entry for each draw."""
    released, b, kind = release["released"], bundle_of(certificate), release["released"]["kind"]
    n, listed = b.items, released.get("asked") if kind == "pair-counts" else None
    pairs = sum(map(len, listed or ())) or n * (n - 1) // 2
    entries = ENTRIES[kind](n, b.groups, pairs) if kind in ENTRIES else None
    main = DERIVATION_OF.get(kind) or release["privacy"]["mechanism"]
    if kind == "precinct-counts":
        entries = n * sum(map(len, (released["precincts"], released["districts"] or (), [0])))
    elif main == RANKED[0] and certificate["rows"]["settings"].get("unlisted") == "below":
        main = RANKED[1]
    if kind == "right-wrong-counts":
        entries = 2 * (graph_sizes(released["pairs"])[0] or pairs)
    if kind == "sheet-totals":
        entries = b.groups * (n * bands_in(released) + sum(map(len, released["sheets"])))
    if kind == "point-totals":
        entries = sum(map(len, released["points"].values())) + len(released["sheets"])
        entries *= b.groups
    if release.get("stream"):  # of one group
        main, entries = "stream_sensitivity", n * CELLS_OF_NIGHT.get(kind, n)
    elif is_weighted(certificate):
        main, entries = "weighted_sensitivity", ENTRIES[kind](n, 1, pairs) + 1
    needed: list[Needed] = [(main, entries)]
    if kind == "scores" and released["exposures"] is not None:
        stated = release["privacy"]["parameters"].get("stated_exposures")
        bare = is_public(certificate, release) or certificate["guarantee"]["epsilon"] == "inf"
        if not bare and stated is None:
            needed.append(("exposures_sensitivity", n))
    if kind == "scores-and-effects":
        q, sums = len(release["effects"]), len(released["of_effects"])
        sizes = zip(SUMS, (b.fits * n, b.fits * n * q, b.fits * sums), strict=True)
        needed += [(f"calibrate_covariate_mle {name}", size) for name, size in sizes if size]
    needed += [(OF_NAMES, None)] * (release.get("found") is not None)
    asked = release.get("counts") or {}
    needed += [(query, size) for query, (size, name) in QUERIES.items() if name in asked]
    look = release.get("look")
    return [*needed, *([] if look is None else [("votes_sensitivity", 2 + counts_items(release))])]


def counts_items(release: Document) -> bool:
    """Whether the look at the rows also told how many name an item that is not listed."""
    return (release.get("look") or {}).get("unlisted") is not None


def named(draw: Document) -> Needed:
    """A draw of the certificate, likewise."""
    derivation = derivation_of(draw)
    if derivation == "calibrate_covariate_mle":
        derivation += f" {SUMS[draw['inputs']['kind']]}"
    return draw["mechanism"] if draw["mechanism"] in LOCAL else derivation, draw.get("entries")


LEADS = {  # the number by which an item is first, and of how many noise values it is made
    "win-counts": ("wins", 1),
    "win-loss-counts": ("net-wins", 2),
    "pair-counts": ("majorities", 2),
    "above-counts": ("majorities", 2),
    "margin-counts": ("majorities", 1),
    "net-sums": ("borda", 1),
    "place-counts": ("first-places", 1),
}


def is_told_lead(certificate: Document, release: Document) -> bool:
    """Whether counts tell how far one item is ahead, each number once: of no stream, and of rows
    without weights."""
    named = [each["by"] for each in release.get("robustness") or ()]
    alone = release.get("stream") is None and not is_weighted(certificate)
    counted = release["released"]["kind"] in {*LEADS, "outcome-counts"} and release["informative"]
    return bool(named) and len({*named}) == len(named) and alone and counted


APART = {"point-totals", "sheet-totals", "precinct-counts", "scores-and-effects"}  # no overlap


def check_extras(certificate: Document, release: Document) -> None:
    """That no part of a release stands beside numbers that it cannot be made of."""
    kind, domain = release["released"]["kind"], certificate["domain"]
    if domain["bounds"].get("groups_per_answer") and kind not in GROUPED - APART:
        raise Wrong(f"{kind} have no groups that overlap, and the certificate states some")
    grouped = kind in GROUPED and not is_weighted(certificate)
    for name, found, made_of_it in (
        ("groups", bool(release.get("groups") or domain["groups"]), grouped),
        ("other_rows", domain["other_rows"], bool(domain["groups"])),
        ("ties", release.get("ties") is not None, kind == "tie-counts"),
        ("test", release.get("test") is not None, kind in OF_SHEETS),
        ("dif", release.get("dif") is not None, kind in OF_SHEETS and bool(domain["groups"])),
        ("fit", release.get("fit") is not None, release["released"].get("by_band") is not None),
        ("effects", bool(release.get("effects")), kind == "scores-and-effects"),
        ("personal", release.get("personal") is not None, kind == "private-pairs"),
        (
            "election",
            bool(release.get("election")),
            kind in {*COUNTED_LISTS} - {"net-sums", "precinct-counts"},
        ),
        ("precincts", release.get("precincts") is not None, kind == "precinct-counts"),
        ("groups", bool(release.get("groups")), kind != "precinct-counts"),
        (
            "elections of groups",
            any(each.get("election") for each in release.get("groups") or ()),
            kind in {"above-counts", "margin-counts", "place-counts"},
        ),
        ("robustness", release.get("robustness") is not None, is_told_lead(certificate, release)),
        ("alarms", release.get("alarms") is not None, release.get("stream") is not None),
    ):
        if found and not made_of_it:
            raise Wrong(f"{kind} have no {name}, and the release states some")
    check_compared(release)
    check_watched(release)
    fitted = [each["item"] for each in release.get("fit") or ()]
    if release.get("fit") is not None and sorted(fitted) != sorted(
        line["item"] for line in release["ranking"]
    ):
        raise Wrong("fit: an item stands twice, or is missing")
    tests = [[len(each["ability"]), len(each["error"])] for each in release.get("test") or ()]
    if tests and tests != [[sum(map(len, own)) + 1] * 2 for own in steps_of_booklets(release)]:
        raise Wrong("test: abilities are of other booklets, or of other scores, than were counted")
    with_points = kind == "point-totals"
    for each in release.get("test") or ():
        if (each.get("steps") is not None) != with_points or ("alpha" in each) != with_points:
            raise Wrong(f"test: {kind} have steps and alpha if, and only if, items give points")
        listed = [[step["item"], step["points"]] for step in each.get("steps") or ()]
        counted = released_points(release["released"]) if with_points else {}
        if listed != [[item, s] for item, most in counted.items() for s in range(1, most + 1)]:
            raise Wrong("test: steps are of other items, or of other points, than were counted")


def check_watched(release: Document) -> None:
    """That each watched pair of items stands once, and has one order."""
    if (told := release.get("alarms")) is None:
        return
    names, pairs = {line["item"] for line in release["ranking"]}, told["pairs"]
    number = math.comb(len(names), 2) if pairs is None else len(pairs)
    if not told["number"] == len(told["orders"]) == number:
        raise Wrong("alarms: there are more pairs, or fewer, than orders")
    listed = [tuple(sorted(pair)) for pair in pairs or ()]
    twice = len({*listed}) < len(listed)
    if twice or any(not len(pair) == len({*pair} & names) == 2 for pair in listed):
        raise Wrong("alarms: a watched pair stands twice, or is not of two items")


def released_points(released: Document) -> dict[str, int]:
    """Most points of each item of a test with points."""
    return {item: len(cells) - 1 for item, cells in released["points"].items()}


def steps_of_booklets(release: Document) -> list[list[list[float]]]:
    """The steps of each item, of each booklet of a test whose sheets were counted, one for each
    point that a sheet can get; of right and wrong answers the difficulty of the item."""
    released, tests = release["released"], release.get("test") or ()
    if released["kind"] == "point-totals":
        own: dict[str, list[float]] = {item: [] for item in released["points"]}
        for step in (step for each in tests for step in each.get("steps") or ()):
            own.setdefault(step["item"], []).append(step["difficulty"])
        return [[*own.values()]]
    difficulty = {line["item"]: [line["score"]] for line in release["ranking"]}
    return [[difficulty[item] for item in items] for items in released["booklets"] or [difficulty]]


def check_compared(release: Document) -> None:
    """That items are compared between the first group and others, each item and group once."""
    pairs, groups = release.get("dif"), [each["name"] for each in release.get("groups") or ()]
    if pairs is None:
        return
    named = [each["group"] for each in pairs]
    if not named or len({*named}) < len(named) or not {*named} <= {*groups[1:]}:
        raise Wrong("dif: groups are compared twice, or are none of this release")
    if any(each["against"] != groups[0] for each in pairs):
        raise Wrong("dif: a group is not compared with the first one")
    for pair in pairs:
        items = [each["item"] for each in pair["items"]]
        if len({*items}) < max(3, len(items)):
            raise Wrong("dif: an item stands twice, or too few are compared")


def check_paid_for(certificate: Document, release: Document, say: Findings) -> None:
    """That the draws pay for what is published: none missing, none twice, none of other size."""
    kind, method = release["released"]["kind"], release["method"]
    unit, laws = certificate["guarantee"]["unit"], LAWS_OF.get(kind, ())
    wanted, found = (
        sorted(name if size is None else f"{name} ({size})" for name, size in each)
        for each in (draws_needed(certificate, release), map(named, certificate["draws"]))
    )
    if method not in KIND_OF or kind not in KIND_OF[method]:
        raise Wrong(f"method {short(method)} does not publish {kind}")
    check_extras(certificate, release)
    own = not laws or release["privacy"]["mechanism"] in laws
    parts = {name for name in RANKED_PARTS if release["released"].get(name) is not None}
    if kind in COUNTED_LISTS:  # one draw pays for those with weights
        own = own and release["released"]["weights"].keys() == parts
    say.check(
        wanted == found and own and (unit == "local") == bool(laws),
        f"{kind} are drawn as the certificate says: {', '.join(wanted)}",
        f"{kind} are drawn by {', '.join(wanted)}, and the certificate has {', '.join(found)},"
        f" with unit {unit}",
    )
    bits, local = certificate["bits"], bool(laws)
    for sources in (bits or {}).values():
        say.check(len({*sources}) == len(sources), wrong="bits names a source twice")
    if bits is None and certificate["reconstructed"]:
        say.open("where the random bits came from: the version that drew did not record it")
        return
    none = certificate["guarantee"]["epsilon"] == "inf"
    given = none or all(draw.get("at_source") for draw in certificate["draws"])
    purpose = "randomisation" if local else "noise"
    say.check(
        given or bool((bits or {}).get(purpose)),
        wrong=f"no source of the random bits of the {purpose} is named",
    )


def check_elections(release: Document, say: Findings, groups: int) -> None:
    """Elections of all rankings together and of each group, of which statements hold at once."""
    named = release.get("groups") or ()
    for board, draws in ((release, groups), *((each, 1) for each in named)):
        own = {"election": board.get("election"), "released": board["released"]}
        own["ranking"] = board["ranking"]
        check_election({**release, **own}, say, Spread(draws, 1 + len(named)))


@dataclass(frozen=True)
class Spread:
    """How noise and doubt are spread over groups.

    Attributes:
        draws: number of noise values that one number is the sum of.
        boards: number of rankings of which statements hold at once.
    """

    draws: int
    boards: int


MANY_DRAWS = 60  # of Laplace noise, whose sum has tails hardly longer than normal ones


def reach_of_sum(tail: float, deviation: float, draws: int, gaussian: bool) -> float:
    """What the sum of so many noise values exceeds with this chance, at least."""
    return far(tail, draws, gaussian or draws > MANY_DRAWS) * deviation if deviation else 0.0


def check_election(release: Document, say: Findings, spread: Spread) -> None:
    """That margins are as sure as the noise allows, and winners are those of the noisy counts.

    Of schulze and ranked-pairs only this is checked: their winners are in the Smith set.
    """
    election, released = release.get("election"), release["released"]
    if election is None:
        return
    listed = [each[name] for each in election["rules"] for name in ("winners", "possible")]
    listed += [each["possible"] for each in election.get("rounds") or ()]
    listed.append([each["rule"] for each in election["rules"]])
    if any(len({*each}) < len(each) for each in listed):
        raise Wrong("election: a rule, or an item of one, is named twice")
    if (released["kind"] == "round-counts") != (election.get("rounds") is not None):
        raise Wrong(f"election: {released['kind']} and rounds do not belong together")
    if released["kind"] == "round-counts":
        check_rounds(release, say)
        return
    of_places = released["kind"] == "place-counts"
    longest = release["privacy"]["parameters"]["longest_ranking"] if of_places else 0
    known = ["plurality", *(f"approval-{k}" for k in range(2, longest + 1))]
    for each in election["rules"]:
        name, winners, possible = each["rule"], {*each["winners"]}, {*each["possible"]}
        if name not in (known if of_places else OF_PAIRS):
            raise Wrong(f"election: {released['kind']} do not tell a rule {short(name)}")
        fits = bool(winners) and winners <= possible and each["sure"] == (len(possible) == 1)
        say.check(
            name == "condorcet" or fits,
            wrong=f"election: winners of {name} are not possible, or not as sure as is said",
        )
    if of_places:
        check_first_places(release, say, spread)
    else:
        check_margins(release, say, spread)


def check_margins(release: Document, say: Findings, spread: Spread) -> None:
    """The same of elections by counts of pairs."""
    election, released = release["election"], release["released"]
    part = "margins" if released["kind"] == "margin-counts" else "above"
    above, weight, items = released[part], released["weights"][part], released["items"]
    n, everybody = len(items), range(len(items))
    cells, back = (1, 0) if part == "margins" else (2, 1)
    margin = [[(above[a][b] - back * above[b][a]) / weight for b in everybody] for a in everybody]
    draws, pairs = cells * spread.draws, n * (n - 1) * spread.boards
    deviation = math.sqrt(draws * (release["privacy"]["noise_variance"] or 0.0)) / weight
    half, normal = 0.5 / weight if deviation else 0.0, NormalDist()
    sure, gaussian = election["sure_from"], "gaussian" in release["privacy"]["mechanism"]
    least = reach_of_sum(0.045 / pairs, deviation, draws, gaussian) + half
    told = [election[name] for name in ("margin_deviation", "sure_from", "chances")]
    fits = None not in told and math.isclose(told[0], deviation, rel_tol=1e-9)
    if gaussian or draws <= MANY_DRAWS:
        fits = fits and math.isclose(sure, least, rel_tol=1e-6 if gaussian else 1e-3)
    fits = fits and sure >= least * 0.999
    say.check(fits, wrong="election: margins are not as sure as their noise allows")
    if not fits:
        return
    check_rules(election, items, margin, say)
    apart = normal.inv_cdf(1 - 0.005 / pairs) * math.sqrt(2 * n) * deviation + half
    check_scored(election, items, margin, apart, say)
    if gaussian and deviation:
        check_chances(election, items, margin, say)


def reach_of_round(n: int, left: int, leave: int, deviation: float, gaussian: bool) -> float:
    """How much the noise may lift those who leave together, of so many left, above another one."""
    share = 1.0 if left == 2 else 0.5 if leave == 1 else 0.5 / (left - 2)
    ways = left - 1 if leave == 1 else math.comb(left, leave)
    wide = far(0.05 * share / ((n - 1) * ways), leave + 1, gaussian)
    return wide * math.sqrt(leave + 1) * deviation + (0.5 if deviation else 0.0)


def order_of_rounds(items: list[str], tables: list[Document]) -> list[str]:
    """Items by when they leave, the last one first; of equal counts the last of the catalogue."""
    gone = list[str]()
    for number, counts in enumerate(tables, 1):
        left = [item for item in items if item not in gone]
        if [item for item in items if counts[item] is not None] != left:
            raise Wrong(f"election: round {number} counts others than those who are left")
        gone.append(min(reversed(left), key=counts.__getitem__))
    return [*({*items} - {*gone}), *reversed(gone)]


def check_rounds(release: Document, say: Findings) -> None:
    """That in each round the item with the fewest leaves, and that just so much is called sure as
    the noise allows.

    All who leave between two rounds surely do so first if their counts together are below each
    other one by more than the reach of the noise; see hushrank's estimation/rankings/
    instant_runoff.py.
    """
    election, released = release["election"], release["released"]
    items, gaussian = released["items"], "gaussian" in release["privacy"]["mechanism"]
    deviation, n = math.sqrt(release["privacy"]["noise_variance"] or 0.0), len(released["items"])
    if any(election[name] is not None for name in ("margin_deviation", "sure_from", "chances")):
        raise Wrong("election: round-counts tell no margins")
    tables = [dict(zip(items, row, strict=True)) for row in released["rounds"]]
    order, reached = order_of_rounds(items, tables), [True, *[False] * (n - 1)]
    for first, counts in enumerate(tables):
        for end in range(first + 1, n):
            most = sum(counts[item] for item in order[n - end : n - first])
            lead = min(counts[item] for item in order[: n - end]) - most
            reach = reach_of_round(n, n - first, end - first, deviation, gaussian)
            reached[end] |= reached[first] and lead > reach
    wrong = "election: rounds are not those of the noisy counts"
    for number, (counts, told) in enumerate(zip(tables, election["rounds"], strict=True)):
        left, near = order[: n - number], reach_of_round(n, n - number, 1, deviation, gaussian)
        near_least = {item for item in left if counts[item] - counts[left[-1]] <= near}
        fits = told["out"] == left[-1] and {*told["possible"]} == near_least
        say.check(fits and told["reached"] == reached[number], wrong=wrong)
    say.check([line["item"] for line in release["ranking"]] == order, wrong=wrong)
    last = {*order[: n - max(number for number, sure in enumerate(reached) if sure)]}
    for found in election["rules"]:
        if found["rule"] != "instant-runoff":
            raise Wrong(f"election: round-counts do not tell a rule {short(found['rule'])}")
        possible = {*found["possible"]}
        fits = found["winners"] == order[:1] and found["sure"] == (len(possible) == 1)
        fits = fits and last == possible
        say.check(fits, wrong="election: the winner of instant-runoff is not that of the rounds")


def check_chances(
    election: Document, items: list[str], margin: list[list[float]], say: Findings
) -> None:
    """That Gaussian noise leaves the chances that are stated: a margin of 1 or more wins."""
    normal, everybody = NormalDist(0, election["margin_deviation"]), range(len(items))
    for a in everybody:
        others = (margin[a][b] for b in everybody if b != a)
        chance = math.prod(normal.cdf(each - (1.0 if each < 0.5 else 0.5)) for each in others)
        told = election["chances"].get(items[a], 1.0)
        say.check(
            told <= chance + 1e-6 and chance < told + 0.01 + 1e-6,
            wrong=f"election: the chance of {short(items[a])} does not follow from the noise",
        )


def check_first_places(release: Document, say: Findings, spread: Spread) -> None:
    """That winners by places have most of these, and all within reach of the noise are possible."""
    election, released = release["election"], release["released"]
    if any(election[name] is not None for name in ("margin_deviation", "sure_from", "chances")):
        raise Wrong("election: place-counts tell no margins")
    weight, items, n = released["weights"]["places"], released["items"], len(released["places"])
    one, gaussian = (
        release["privacy"]["noise_variance"],
        "gaussian" in release["privacy"]["mechanism"],
    )
    tail = 0.05 / (n * (n - 1) * max(len(election["rules"]), 1) * spread.boards)
    for found in election["rules"]:
        k = int(found["rule"].partition("-")[2] or 1)
        draws = 2 * k * spread.draws
        deviation = math.sqrt(draws * (one or 0.0)) / weight
        reach = reach_of_sum(tail, deviation, draws, gaussian) * 0.999
        reach += 0.5 / weight if deviation else 0.0
        check_best(found, items, [sum(row[:k]) / weight for row in released["places"]], reach, say)


def check_scored(
    election: Document, items: list[str], margin: list[list[float]], apart: float, say: Findings
) -> None:
    """That copeland, minimax and borda, whose sums may be off by `apart`, name the best scores."""
    others = [[d for b, d in enumerate(row) if b != a] for a, row in enumerate(margin)]
    scores: dict[str, tuple[list[float], float]] = {
        "copeland": ([sum((d > 0) - (d < 0) for d in row) for row in others], 0.0),
        "minimax": ([*map(min, others)], 2 * election["sure_from"]),
        "borda": ([*map(sum, others)], apart),
    }
    for found in election["rules"]:
        if found["rule"] in scores:
            check_best(found, items, *scores[found["rule"]], say)


def check_best(
    found: Document, items: list[str], scores: Sequence[float], reach: float, say: Findings
) -> None:
    """That winners have the largest score, and all that are within reach of it are possible."""
    best = max(scores)
    first, near = (
        {item for item, score in zip(items, scores, strict=True) if score > best - least}
        for least in (1e-9 * (1 + abs(best)), reach - 1e-6)
    )
    say.check(
        {*found["winners"]} == first and near <= {*found["possible"]},
        wrong=f"election: the winner by {found['rule']} is not that of the noisy counts",
    )


def smith_set(margin: list[list[float]], least: float) -> list[int]:
    """The smallest group of which each beats each one outside by more than `least`."""
    order = sorted(range(len(margin)), key=lambda a: -sum(d > least for d in margin[a]))
    cuts = ((order[:k], order[k:]) for k in range(1, len(order) + 1))  # who is in it beats most
    return next(own for own, rest in cuts if all(margin[a][b] > least for a in own for b in rest))


def check_rules(
    election: Document, items: list[str], margin: list[list[float]], say: Findings
) -> None:
    """That the Condorcet winner is that of the margins, and the Smith set surely holds winners."""
    everybody, sure = range(len(items)), election["sure_from"]
    results = {each["rule"]: each for each in election["rules"]}
    inside = {items[a] for a in smith_set(margin, sure)}
    if (found := results.get("condorcet")) is not None:
        beats = [
            [items[a] for a in everybody if all(margin[a][b] > limit for b in everybody if b != a)]
            for limit in (0.0, sure, -sure)
        ]
        fits = found["winners"] == beats[0] and {*found["possible"]} == {*beats[2]}
        fits = fits and found["sure"] == bool(beats[1] or not beats[2])
        say.check(fits, wrong="election: the Condorcet winner is not that of the noisy counts")
    for rule in results.keys() & {"copeland", "schulze", "ranked-pairs"}:
        fits = {*results[rule]["possible"]} <= inside
        say.check(fits, wrong=f"election: {rule} is not in the Smith set")
    if (found := results.get("smith")) is not None:
        first = {items[a] for a in smith_set(margin, 0.0)}
        fits = {*found["winners"]} == first and {*found["possible"]} == inside
        say.check(fits, wrong="election: the Smith set is not that of the noisy counts")


def check_public(certificate: Document, release: Document, say: Findings) -> None:
    """That what is published without noise is stated to be public."""
    parameters, released = release["privacy"]["parameters"], release["released"]
    facts = {each["fact"]: each for each in certificate["public_facts"]}
    if is_public(certificate, release):
        stated = facts.get("who compared what", {}).get("value")
        say.check(
            stated is not None
            and parameters.get("public_graph") is True
            and parameters.get("public_graph_statement") == stated
            and certificate["guarantee"]["adjacency"] == "replace-one",
            wrong="only who won is protected, and nobody states that who compared what is public",
        )
    exposures = released.get("exposures")
    if (stated := parameters.get("stated_exposures")) is not None:
        fact = facts.get(STATED_NUMBERS, {}).get("sha256")
        listed = sorted([[item], float(number)] for item, number in (exposures or {}).items())
        text = json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
        say.check(
            fact is not None
            and (stated == "pairs" or hashlib.sha256(text.encode()).hexdigest() == fact)
            and stated in ("items", "pairs"),
            wrong="exposures are published without noise, and are not the public numbers that the"
            " certificate names",
        )
    check_public_pairs(certificate, release, facts, say)
    effects = [each["name"] for each in release.get("effects") or ()]
    effects += ["shown first"] if released.get("presentation") else []
    known = FACTS_STATED | {f"the covariate {name}, and its scale" for name in effects}
    unknown = [each for each in facts if each not in known]
    twice = len(facts) < len(certificate["public_facts"])
    say.check(not twice, wrong="public_facts states a fact twice")
    say.check(not unknown, wrong=f"format {FORMAT} has no public fact {short(', '.join(unknown))}")


def check_public_pairs(
    certificate: Document, release: Document, facts: dict[str, Document], say: Findings
) -> None:
    """That counts are of the pairs, booklets and points that are stated to be public."""
    parameters, released = release["privacy"]["parameters"], release["released"]
    names = released.get("items") or ()
    rows = enumerate((released["kind"] == "pair-counts" and released.get("asked")) or ())
    named = sorted(sorted((names[i], names[j])) for i, row in rows for j in row)
    text = json.dumps(named, ensure_ascii=False, separators=(",", ":"))
    found = (len(named), hashlib.sha256(text.encode()).hexdigest()) if named else (None, None)
    stated = certificate["rows"]["settings"].get("pairs"), facts.get(ASKED_PAIRS, {}).get("sha256")
    by_exposures = parameters.get("stated_exposures") == "pairs" and not named
    say.check(
        found == stated or (by_exposures and stated[1] is None),
        wrong="counts are of other pairs than those stated to be public",
    )
    booklets = certificate["rows"]["settings"].get("booklets")
    if released["kind"] == "sheet-totals":
        for board in (release, *(release.get("groups") or ())):
            check_sheets(board["released"], booklets, certificate["domain"], say)
            check_anchors(board, release["scale"], say)
    elif released["kind"] == "point-totals":
        for board in (release, *(release.get("groups") or ())):
            own, settings = board["released"], certificate["rows"]["settings"]
            check_points(own, settings, certificate["domain"], say)
    elif booklets:
        shared = {(a, b) for each in booklets.values() for a in each for b in each if a != b}
        graph = released.get("pairs") or [range(i + 1, len(names)) for i in range(len(names))]
        drawn = {(names[i], names[j]) for i, row in enumerate(graph) for j in row}
        drawn |= {(b, a) for a, b in drawn}
        say.check(drawn == shared, wrong="counts are of other pairs than share a booklet")


def check_sheets(
    released: Document, booklets: Document | None, domain: Document, say: Findings
) -> None:
    """That raw scores are those of the public booklets, each score or every so many of them."""
    sets = {frozenset(each) for each in (booklets or {}).values()}
    told = released["booklets"] or [[*released["right_minus_wrong"]]]
    if booklets and released["booklets"] is None:  # all booklets have all items
        told = [next(iter(booklets.values()))]
    fits = {frozenset(each) for each in told} == (sets or {frozenset(told[0])})
    fits &= len(told) == len(released["knots"]) == len(released["sheets"])
    step, bands = step_of_scores(released), released.get("bands") or [[0] for _ in told]
    fits &= bands == [starts_of_bands(len(items), bands_in(released)) for items in told]
    parts = zip(told, released["knots"], released["sheets"], bands, strict=False)
    for items, knots, sheets, starts in parts:
        ends = [*(start - 1 for start in starts[1:]), len(items)]
        fits &= starts[:1] == [0] and all(a <= b for a, b in zip(starts, ends, strict=True))
        wanted = [[*range(a, b, step), b] for a, b in zip(starts, ends, strict=True)]
        fits &= knots == [*itertools.chain(*wanted)] and len(knots) == len(sheets)
    if (released.get("bands") is None) != (released.get("by_band") is None):
        raise Wrong("bands of raw scores are named without their numbers, or the other way round")
    if released.get("by_band") is not None:
        sums = {i: sum(e[i] for e in released["by_band"]) for i in released["right_minus_wrong"]}
        say.check(
            sums == released["right_minus_wrong"] and len(released["by_band"]) > 1,
            wrong="right less wrong answers are not the sums over bands of raw scores",
        )
    say.check(fits, wrong="sheets are counted by other raw scores than those of the booklets")
    largest, most = max(map(len, told)), domain["bounds"]["max_contributions"]
    say.check(largest <= most, wrong="a sheet has more items than a person's bound")


def check_anchors(board: Document, scale: str, say: Findings) -> None:
    """That difficulties lie around the fixed ones of the anchors: their mean distance is zero,
    with weights that a release does not tell."""
    anchors = board["released"].get("anchors")
    fits = (anchors is not None) == (scale == "anchored-difficulty")
    scores = {line["item"]: float(line["score"]) for line in board["ranking"]}
    if anchors is not None and any(scores.values()):  # else nothing was learned
        fits &= len(anchors) > 1 and {*anchors} <= {*scores}
        off = [scores.get(item, 0.0) - fixed for item, fixed in anchors.items()]
        fits &= bool(off) and min(off) <= 1e-6 and max(off) >= -1e-6
    say.check(fits, wrong="difficulties are not on the scale of the anchors")


def check_points(released: Document, settings: Document, domain: Document, say: Findings) -> None:
    """That cells and raw scores are those of the public points of the items."""
    told, stated = released_points(released), settings.get("points") or 1
    wanted = {i: stated if isinstance(stated, int) else stated.get(i, 1) for i in told}
    fits = told == wanted and (isinstance(stated, int) or {*stated} <= {*told})
    top, step = sum(told.values()), step_of_scores(released)
    fits &= released["knots"] == [*range(0, top, step), top]
    fits &= len(released["knots"]) == len(released["sheets"])
    say.check(fits, wrong="sheets are counted by other points than those of the settings")
    most = domain["bounds"]["max_contributions"]
    say.check(len(told) <= most, wrong="a sheet has more items than a person's bound")


def starts_of_bands(items: int, bands: int) -> list[int]:
    """The lowest raw score of each band of a booklet: quarters of a typical test, for example."""
    starts = [0]
    for band in range(1, bands):
        odds = math.exp(0.85 * NormalDist().inv_cdf(band / bands))
        starts.append(max(round(items * odds / (1 + odds)), starts[-1] + 1))
    return starts


def bands_in(released: Document) -> int:
    """Bands of raw scores in which right less wrong answers are told apart; 1: there are none."""
    return len(released.get("by_band") or [()])


def step_of_scores(released: Document) -> int:
    """Scores between two numbers of sheets, the most between two of the longest booklet."""
    longest = released["knots"]
    if released["kind"] != "point-totals":
        longest = max(longest, key=lambda knots: knots[-1] if knots else 0)
    most: int = max([1, *(b - a for a, b in itertools.pairwise(longest))])
    return most


NAMELESS = "each ranking in the input is another person's"
STATED_NUMBERS = (
    "how often items or pairs are compared: a file of public numbers, of which this is the digest"
    " (sorted pairs of item and number, as JSON)"
)
FOUND_BY = "the rules by which names of items are found"
ASKED_PAIRS = "the pairs that were asked about: digest of sorted pairs of sorted names, as JSON"
VERSION_OF_ROWS = "the version of the rows, a name that the operator gave them"
FACTS_STATED = {
    ASKED_PAIRS,
    FOUND_BY,
    "the items, none of which was made from the answers",
    "the groups that have rankings of their own",
    "the groups that have counts of their own",
    "how many people there are",
    "how many rows there are",
    "that an answer was given, and what is not_protected in `guarantee`",
    "who compared what",
    STATED_NUMBERS,
    "which nights are ranked, and on which days files arrived",
    "every setting under `rows` and `domain`",
    "which pairs were asked about; results rest on it, the guarantee does not",
    NAMELESS,
    "people of these populations are others, although they are in the same files",
    VERSION_OF_ROWS,
}


def parameters_of(certificate: Document, release: Document) -> Document:
    """What follows of `privacy.parameters` from the rest; None: it has to be left out."""
    released, kind = release["released"], release["released"]["kind"]
    bounds, n = certificate["domain"]["bounds"], certificate["domain"]["items"]
    draw, by_name = certificate["draws"][-1], {named(e)[0]: e for e in certificate["draws"]}
    look, pairs = by_name.get("votes_sensitivity"), n * (n - 1) // 2
    found = parameters_of_names(by_name.get(OF_NAMES), draw)
    found["counts_epsilon"] = cost_of_queries(certificate) or None
    found["look_epsilon"] = look and fraction(look["cost"]["epsilon"])
    found["look_noise_scale"] = look and fraction(look["law"]["scale"])
    if kind in ("win-counts", "win-loss-counts", "pair-counts"):
        weighted = is_weighted(certificate)
        found["bounding"] = bounds["bounding"] if weighted else None
        found["units_of_a_comparison"] = released["row_weight"] if weighted else None
        found["max_weight"] = bounds["max_weight"] and fraction(bounds["max_weight"])
    if kind in ("pair-counts", "tie-counts"):
        found["pairs"] = sum(map(len, released.get("asked") or ())) or pairs
    if kind == "tie-counts":
        found["tie_model"] = release["ties"]["model"]
    if kind == "outcome-counts" and released["pairs"] is not None:
        found["pairs_compared"] = sum(map(len, released["pairs"]))
    if kind == "top-list":
        found["k"] = len(released["items"])
    if kind == "right-wrong-counts":
        found["pairs"] = graph_sizes(released["pairs"])[0] or pairs
        booklets = certificate["rows"]["settings"].get("booklets")
        found["booklets"] = booklets and len(booklets)
    if kind == "sheet-totals":
        found["step_of_scores"] = step_of_scores(released)
        found["bands"] = None if bands_in(released) == 1 else bands_in(released)
        booklets = certificate["rows"]["settings"].get("booklets")
        found["booklets"] = booklets and len(booklets)
    if kind == "point-totals":
        found["step_of_scores"] = step_of_scores(released)
    if kind in ("scores", "scores-and-effects"):
        found |= parameters_of_optimum(by_name[DERIVATION_OF[kind]], release)
        paid = {"exposures_sensitivity": "exposures"}
        paid |= {f"calibrate_covariate_mle {name}": f"information_{name}" for name in SUMS}
        for name in by_name.keys() & paid.keys():
            each, start = by_name[name], paid[name]
            found[f"{start}_epsilon"] = fraction(each["cost"]["epsilon"])
            found[f"{start}_noise_scale"] = fraction(each["law"]["scale"])
            found[f"{start}_sensitivity_l1"] = each["sensitivity"]["l1"]
    if kind in LISTS and "items_at_one_rank" in release["privacy"]["parameters"]:
        found["items_at_one_rank"] = tie_rule(certificate["rows"]["settings"])
    for part, weight in (released.get("weights") or {}).items():
        found[f"weight_of_{part}"] = weight
    if kind in LAWS_OF:
        found |= parameters_of_local(draw, certificate, release)
    return found


def parameters_of_names(names: Document | None, main: Document) -> Document:
    """The same of names of items that were drawn before their ranking, if any were."""
    if names is None:
        return dict.fromkeys(("names_rho", "ranking_rho", "names_of_a_person", "names_delta"))
    rho, rest = (fraction(each["cost"]["rho"]) for each in (names, main))
    told = {"names_rho": rho, "ranking_rho": rest, "names_of_a_person": names["inputs"]["c"]}
    return {**told, "names_delta": fraction(names["cost"]["delta"])}


def tie_rule(settings: Document) -> str | None:
    """What becomes of items that a ranking puts at one rank; None: it has no ranks."""
    several = settings.get("layout") == "places" and settings.get("overvoted")
    if settings.get("layout") not in ("long", "wide", "best-worst") and not several:
        return None
    if settings.get("ties") == "random":
        return "a secret coin puts them in order"
    if settings.get("overvotes") == "exhaust":
        return "the ranking ends before them"
    invalid = settings.get("no_valid_vote") is not None
    return "the ranking counts as no valid vote" if invalid else "the ranking is set aside"


def parameters_of_optimum(draw: Document, release: Document) -> Document:
    """The same of noise inside an optimisation, before what is paid for apart."""
    found: Document = {"link": draw["loss"]["link"], "gamma": fraction(draw["ridge"])}
    cover = draw["cover"]
    if cover is not None:
        found |= {
            "lambda": fraction(draw["scale"]),
            "epsilon_det": fraction(draw["determinant_epsilon"]),
            "epsilon_out": fraction(cover["epsilon"]),
            "solver_tolerance": fraction(cover["tolerance"]),
            "output_noise_deviation": math.sqrt(variance_in(cover["law"])),
        }
    if release["released"]["kind"] == "scores":
        found |= {"constants": draw["constants"], "public_graph": draw["public_graph"]}
        found["exposures_epsilon"] = None
        return found if draw["public_graph"] else {**found, "public_graph_statement": None}
    effects = release["effects"]
    found |= {f"scale_of_{each['name']}": each["scale"] for each in effects}
    found["covariates"] = ", ".join(each["name"] for each in effects)
    return {**found, "share_of_effects": fraction(draw["share"])}


def parameters_of_local(draw: Document, certificate: Document, release: Document) -> Document:
    """The same of what was privatised one by one."""
    parts, released = parts_of(certificate, release), release["released"]
    interval, tags = parts["interval"], parts.tags
    divided = f"{interval}, divided by the person's answers"
    epsilon = exactly(certificate["guarantee"]["epsilon"])
    if released["kind"] == "randomised-answers":
        return {"epsilon_of_a_person": epsilon, "epsilon_of_an_answer": divided}
    if released["kind"] == "private-sums":
        single = not tags & {"range", "per_user", "at_source"}
        flips, noise = single and "thresholds" in draw, single and "laws" in draw
        return {
            "epsilon_of_an_answer": divided if "per_user" in tags else interval,
            "epsilon_of_a_person_at_most": epsilon if tags & {"per_user", "bounded"} else None,
            "flip_probability": draw["thresholds"][0]["threshold"] / WORDS if flips else None,
            "noise_scale_of_an_answer": fraction(draw["laws"][0]["scale"]) / GRID
            if noise
            else None,
        }
    found = {
        "epsilon_of_a_ranking": interval,
        "epsilon_of_a_person_at_most": None if "unnamed" in tags else epsilon,
    }
    if "pairs" in draw:
        hidden = "the order of the ranked items"
        if "hide_items" in tags:
            hidden = "which items were ranked, how many, and their order"
        levels = [digits(fraction(each["epsilon"])) for each in draw.get("levels") or ()]
        found["levels_of_epsilon"] = ", ".join(levels) or None
        read = certificate["rows"]["settings"].get("person_features") or ()
        found["features_of_people"] = ", ".join(read) or None
        return {**found, "pairs_answered": draw["pairs"], "hidden": hidden}
    return {**found, "epsilon_of_a_whole_ranking_at_most": fraction(draw["whole_ranking"])}


def is_same(one: Any, other: Any) -> bool:
    """Whether two numbers are alike but for rounding, or two other values alike."""
    if isinstance(one, (int, float, Fraction)) and isinstance(other, (int, float, Fraction)):
        return math.isclose(one, other, rel_tol=1e-9) and isinstance(one, bool) == isinstance(
            other, bool
        )
    return bool(one == other)


def check_numbers(certificate: Document, release: Document, say: Findings) -> None:
    """That numbers of the mechanism, of the look and of the stream are those that follow from the
    draws; and that tables hold nothing where nothing is counted."""
    main = next(each for each in certificate["draws"] if derivation_of(each) not in BEFORE)
    told = numbers_of_noise(main, release)
    for name, value in parameters_of(certificate, release).items():
        told[f"parameters.{name}"] = release["privacy"]["parameters"].get(name), value
    for part, numbers in (("look", numbers_of_look), ("counts", numbers_of_queries)):
        told |= {} if release.get(part) is None else numbers(certificate, release)
    if (own := release.get("found")) is not None:
        told["names reach their threshold"] = min(own["weights"].values()) >= own["threshold"], True
    if release.get("stream"):
        told |= numbers_of_night(certificate, release, main["law"])
    if release["released"]["kind"] == "precinct-counts":
        check_precincts(certificate, release, say)
    elif certificate["domain"]["groups"]:
        told |= sums_of_groups(certificate, release)
    if release.get("unit") is not None:
        told["unit"] = release["unit"], UNIT_OF.get(release["scale"])
    if release.get("top_k") is not None:
        best = [line["item"] for line in release["ranking"]]
        told["top_k"] = release["top_k"], best[: len(release["top_k"])]
    wrong = {name: each for name, each in told.items() if not is_same(*each)}
    for name, (stated, found) in wrong.items():
        text = f"{name} is {short(stated)}, and {short(found)} follows from the rest"
        say.check(False, wrong=f"release.json: {text}")
    if not wrong:
        say.check(True, "numbers of the mechanism follow from the draws")
    for name in unlike_levels(release):
        say.check(False, wrong=f"release.json: {name} does not fit the levels of epsilon")
    check_sums(release, say)
    if release.get("personal") or release["released"].get("by_profile"):
        unfit = list(unlike_profiles(certificate, release))
        say.check(
            not unfit,
            "scores by features of people: counts of all profiles add up, and effects, intervals"
            " and ranking follow from the coefficients",
            f"release.json: {', '.join(unfit)}: does not follow from the features of people",
        )
    for board in (release, *(release.get("groups") or ())):
        for name in counted_nowhere(board["released"]):
            say.check(False, wrong=f"release.json: {name} has a number where nothing is counted")
    for name in not_counts(certificate, release):
        say.check(False, wrong=f"release.json: {name} has a fraction, and counts have none")


def precinct_blocks(told: Document) -> list[list[int]]:
    """Rows of the precincts of each district; at last those that are in none, if there are any."""
    place = {code: number for number, code in enumerate(told["precincts"])}
    blocks = [
        [place.get(code, -1) for code in codes] for codes in (told["districts"] or {}).values()
    ]
    listed = {row for rows in blocks for row in rows}
    rest = [row for row in range(len(told["votes"])) if row not in listed]
    return [*blocks, rest] if rest else blocks


Estimated = list[tuple[float, float]]  # numbers, and variances of their noise


def precinct_totals(release: Document) -> tuple[list[float], list[Estimated]]:
    """Votes of each item in all precincts, and in each block of these: means of what was released
    and of sums of what was released of parts, by their variances."""
    released, told = release["released"], release["precincts"]
    weights, noise = released["weights"], release["privacy"]["noise_variance"] or 0.0
    cells, wide = (noise / weights[name] ** 2 for name in ("precincts", "totals"))
    found, blocks = list[float](), [Estimated() for _ in released["totals"]]
    for item, total in enumerate(released["totals"]):
        for number, rows in enumerate(precinct_blocks(told)):
            part = sum(released["precincts"][row][item] for row in rows) / weights["precincts"]
            own = len(rows) * cells
            if number < len(told["districts"] or ()):
                share = own / (own + wide) if noise else 1.0
                given = released["districts"][number][item] / weights["districts"]
                part, own = share * given + (1 - share) * part, share * wide
            blocks[item].append((part, own))
        parts, spread = map(sum, zip(*blocks[item], strict=True))
        share = spread / (spread + wide) if noise else 1.0
        found.append(share * total / weights["totals"] + (1 - share) * parts)
    return found, blocks


def parts_of_whole(parts: Estimated, whole: float) -> list[float]:
    """The nearest numbers of at least 0 with this sum, after what the parts lack is spread over
    them by their variances."""
    spread = sum(own for _, own in parts)
    lacks = whole - sum(part for part, _ in parts)
    near = [part + lacks * (own / spread if spread else 1 / len(parts)) for part, own in parts]
    level, held = max(near) - whole, 0.0
    for count, each in enumerate(sorted(near, reverse=True), 1):
        held += each
        if each > (held - whole) / count:
            level = (held - whole) / count
    return [max(each - level, 0.0) for each in near]


def votes_follow(release: Document, blocks: list[Estimated]) -> bool:
    """Whether each vote is a rounded part of the votes of its block, and these of the whole."""
    told, released = release["precincts"], release["released"]
    votes, weight = told["votes"], released["weights"]["precincts"]
    rows_of = precinct_blocks(told)
    for item, whole in enumerate(told["votes_of_all"]):
        sums = [sum(votes[row][item] for row in rows) for rows in rows_of]
        pairs = [*zip(sums, parts_of_whole(blocks[item], whole), strict=True)]
        for rows, held in zip(rows_of, sums, strict=True):
            cells = [(released["precincts"][row][item] / weight, 1.0) for row in rows]
            own = [votes[row][item] for row in rows]
            pairs += zip(own, parts_of_whole(cells, held), strict=True)
        if any(abs(vote - exact) > 1 + 1e-6 for vote, exact in pairs):
            return False
    return True


def check_precincts(certificate: Document, release: Document, say: Findings) -> None:
    """That votes by precinct add up, at all levels, to what the noisy counts say of all together,
    and that their errors are those of the noise."""
    told, released, domain = release["precincts"], release["released"], certificate["domain"]
    districts, codes = told["districts"], told["precincts"]
    inside = sorted(code for own in (districts or {}).values() for code in own)
    sizes = [len(released["precincts"]), len(told["votes"])]
    if codes != domain["groups"] or told["elsewhere"] != domain["other_rows"]:
        raise Wrong("precincts: they are not the groups of the certificate")
    if sizes != [len(codes) + told["elsewhere"]] * 2 or (districts and inside != sorted(codes)):
        raise Wrong("precincts: a row is missing, or a precinct is not in one district")
    of_districts = [districts, released["districts"], told["votes_of_districts"]]
    if len({None if each is None else len(each) for each in of_districts}) > 1:
        raise Wrong("precincts: districts are not those that were counted")
    deviation = math.sqrt(release["privacy"]["noise_variance"] or 0.0)
    gaussian, fits = "gaussian" in release["privacy"]["mechanism"], True
    for name, level in (("", "precincts"), ("wide_", "totals")):
        weight, reach = released["weights"][level], told[f"{name}reach"]
        own = deviation / weight
        least = NormalDist().inv_cdf(0.975) * own + (0.5 / weight if deviation else 0.0)
        fits = fits and math.isclose(told[f"{name}deviation"], own, rel_tol=1e-9)
        fits = fits and (math.isclose(reach, least, rel_tol=1e-6) if gaussian else reach >= least)
        apart, n = told.get(f"{name}margin_reach"), len(released["items"])
        if apart is not None:  # earlier versions stated none
            far_apart = far(0.05 / (n * (n - 1)), 2, gaussian) * math.sqrt(2) * own
            far_apart += 0.5 / released["weights"][level] if own else 0.0
            fits = fits and math.isclose(apart, far_apart, rel_tol=1e-6 if gaussian else 1e-3)
    say.check(fits, wrong="precincts: errors are not those of the noise")
    votes, blocks = told["votes"], precinct_blocks(told)
    sums = [
        [sum(votes[row][item] for row in rows) for rows in blocks] for item in range(len(votes[0]))
    ]
    adds = [sum(each) for each in sums] == told["votes_of_all"]
    for number, own_votes in enumerate(told["votes_of_districts"] or ()):
        adds = adds and [each[number] for each in sums] == own_votes
    totals, estimated = precinct_totals(release)
    near = all(
        abs(whole - max(total, 0.0)) < 0.5 + 1e-6
        for whole, total in zip(told["votes_of_all"], totals, strict=True)
    )
    say.check(
        adds and near,
        "votes by precinct add up to what the noisy counts say of all together",
        "precincts: votes do not add up, or not to what the noisy counts say of all together",
    )
    say.check(
        votes_follow(release, estimated),
        wrong="precincts: votes of a precinct or district do not follow from the noisy counts",
    )


Told = dict[str, tuple[Any, Any]]  # by name: what is stated, and what follows


def numbers_of_noise(main: Document, release: Document) -> Told:
    """What `privacy` says of the noise, where it says anything."""
    privacy, found = release["privacy"], Told()
    law = main.get("law") or (main.get("laws") or [None])[0]
    if law is None:
        return found
    laplace, step = law["kind"] == "laplace", float(fraction(law["step"]))
    if privacy["noise_variance"] is not None:
        found["noise_variance"] = privacy["noise_variance"], variance_in(law)
    if privacy["sensitivity_norm"] is not None:
        found["sensitivity_norm"] = privacy["sensitivity_norm"], "l1" if laplace else "l2"
    if privacy["sensitivity"] is not None and "law" in main:
        norms = main["sensitivity"]
        moved = norms["l1"] if laplace else math.sqrt(norms["l2_squared"])
        found["sensitivity"] = privacy["sensitivity"], moved * step
    if "laws" in main and main["mechanism"] not in LOCAL:
        found["laws of the noise"] = len(main["laws"]), 2 if release.get("effects") else 1
    return found


def cost_of_queries(certificate: Document) -> Fraction:
    """Epsilon of all counts beside the ranking; 0: there are none."""
    costs = [each["cost"] for each in certificate["draws"] if derivation_of(each) in QUERIES]
    return sum((exactly(each["epsilon"]) for each in costs), NONE)


def numbers_of_queries(certificate: Document, release: Document) -> Told:
    """Numbers of the counts beside the ranking: their cost, their intervals and the share."""
    counts = release["counts"]
    told: Told = {"counts.epsilon": (counts["epsilon"], cost_of_queries(certificate))}
    pair = counts.get("contradictions") or {}
    for name, each in (*counts.items(), *pair.items()):
        if isinstance(each, dict) and "count" in each:
            count, error = each["count"], reach_of_one(float(each["noise_scale"]))
            told[f"counts {name}, low"] = each["low"], max(count - error, 0)
            told[f"counts {name}, high"] = each["high"], max(count + error, 0)
    if pair:
        fit, unfit = (max(pair[name]["count"], 0) for name in ("contradicting", "consistent"))
        share = round(fit / (fit + unfit), 4) if fit + unfit else None
        told["counts share"] = pair.get("share"), share
        ends = pair["share_low"], pair["share_high"]
        within = 0 <= ends[0] <= (ends[0] if share is None else share) <= ends[1] <= 1
        told["counts share within its interval"] = within, True
    return told


def reach_of_one(scale: float) -> int:
    """The least t that discrete Laplace noise of this scale exceeds with 5 % at most, in size: its
    chance to exceed t is 2 e^(-(t + 1) / b) / (1 + e^(-1 / b))."""
    if scale == 0:
        return 0
    beyond = math.log(2 / (1 + math.exp(-1 / scale)) / 0.05)
    return max(math.ceil(scale * beyond - 1), 0)


def numbers_of_look(certificate: Document, release: Document) -> Told:
    """Numbers of the look at the rows that came first."""
    looked = release["look"]
    fit, unfit = max(looked["fit"], 0), max(looked["unfit"], 0)
    return {
        "look.epsilon": (looked["epsilon"], release["privacy"]["parameters"].get("look_epsilon")),
        "look.share": (looked["share"], round(fit / (fit + unfit), 4) if fit + unfit else None),
        "look.voters": (
            looked["voters"],
            "people" if certificate["guarantee"]["unit"] == "user" else "rows",
        ),
    }


UNIT_OF = {
    **{name: name for name in ("log-odds", "elo", "laplace", "probit")},
    **{"win-share": "percent", "difficulty": "log-odds", "above-middle": "places", "place": "none"},
    "point-difficulty": "log-odds",
    "anchored-difficulty": "log-odds",
    "votes": "votes",
}


def numbers_of_night(certificate: Document, release: Document, law: Document) -> Told:
    """Numbers of a night of a stream: its date and noise, and on the first night what it shows."""
    told, shown, kind = release["stream"], release["released"], release["released"]["kind"]
    first, number = date.fromisoformat(told["first"]), told["number"]
    found = {
        "night": (release.get("night"), str(first + timedelta(days=number - 1))),
        "stream.number": (number <= told["nights"], True),
        "stream.noise_variance": (told["noise_variance"], variance_in(law) * 2**40),
        "stream.shown_variance": (told["shown_variance"], shown_variance(law, told, number)),
    }
    if number == 1 or (told["window"] == 1 and len(told["coefficients"]) == 1):
        n, groups = certificate["domain"]["items"], bundle_of(certificate).groups
        cells = len(told["noisy"]) // groups
        whole = told["noisy"][-cells:] if bundle_of(certificate).most else told["noisy"]
        sums = [sum(whole[at::cells]) / told["coefficients"][0] for at in range(cells)]
        wins, losses = shown["wins"], shown.get("losses", {})
        listed = [*itertools.chain(*wins)] if kind == "pair-counts" else [*wins.values()]
        listed += losses.values()
        pairs = zip(itertools.count(), listed, sums, strict=False)
        far = [a - b for at, a, b in pairs if kind != "pair-counts" or at // n != at % n]
        found["what the night shows"] = max(map(abs, far)) < 1e-5, True
    return found


def sums_of_groups(certificate: Document, release: Document) -> Told:
    """That all groups are of the kind of the whole, and that they add up to it where no other rows
    count."""
    whole, groups = release["released"], [each["released"] for each in release["groups"]]
    found: Told = {
        "kind of a group": ({each["kind"] for each in groups}, {whole["kind"]}),
        "items of a group": (
            [each.get("items") for each in groups],
            [whole.get("items")] * len(groups),
        ),
    }
    same = (
        "units",
        "row_weight",
        "answer_weight",
        "sheet_weight",
        "share",
        "booklets",
        "knots",
        "weights",
    )
    added = ("wins", "losses", "ties", "right_minus_wrong", "points", "sheets", *RANKED_PARTS)
    for name in same:
        found[f"{name} of a group"] = [e.get(name) for e in groups], [whole.get(name)] * len(groups)
    alone = certificate["domain"]["bounds"].get("groups_per_answer")  # then the whole is no sum
    if not certificate["domain"]["other_rows"] and not alone:
        for name in added:
            total, parts = (
                numbers_in(whole.get(name)),
                [numbers_in(each.get(name)) for each in groups],
            )
            sums = [sum(each) for each in zip(*parts, strict=True)]
            far = [abs(a - b) for a, b in zip(total, sums, strict=True)]
            found[f"{name} of all groups"] = max(far, default=0) < 1e-5 * len(parts), True
        for band, told in enumerate(whole.get("by_band") or ()):
            sums_of_band = {i: sum(each["by_band"][band][i] for each in groups) for i in told}
            found[f"band {band + 1} of all groups"] = told, sums_of_band
    return found


def numbers_in(value: Any) -> list[float]:
    """All numbers of a table, in order; of items by name."""
    if isinstance(value, dict):
        value = [value[name] for name in sorted(value)]
    if isinstance(value, list):
        return [number for each in value for number in numbers_in(each)]
    return [] if value is None else [value]


def not_counts(certificate: Document, release: Document) -> Iterator[str]:
    """Tables that hold fractions although their counts and noise are whole numbers. Nights of a
    stream may show fractions, and so may exposures that the operator states."""
    if release.get("stream"):
        return
    steps = {"wins": 1, "losses": 1}  # of one, or of half a row where ties are split
    if any(derivation_of(draw) == "exposures_sensitivity" for draw in certificate["draws"]):
        steps["exposures"] = bundle_of(certificate).weight
    for board in (release, *(release.get("groups") or ())):
        for name, step in steps.items():
            if any(each * step % 1 for each in numbers_in(board["released"].get(name))):
                yield f"released.{name}"


def unlike_order(released: Document) -> Iterator[str]:
    """What a release says of the item shown first, and its own sums do not."""
    told, shown = released["presentation"], released["presentation"]["shown"]
    n = len(shown)
    pairs = [(shown[i][j], shown[j][i], i, j) for i in range(n) for j in range(i + 1, n)]
    found = {"unbalanced": sum((a - b) ** 2 > 16 * (a + b) for a, b, *_ in pairs)}
    names = ("share", "low", "high", "spread", "spread_low", "spread_high")
    found |= dict.fromkeys(names)
    sums = told["parts"]
    U, V, T, X, D = map(sum, zip(*sums, strict=True))
    if sum(map(sum, released["w"])) != V:
        yield "released.presentation.parts"
    if not found["unbalanced"] and all(part[4] > 0 for part in sums):

        def off_by(parts: Iterable[float]) -> float:
            return 2.0930240544083087 * math.sqrt(20 / 19 * sum(each**2 for each in parts))

        mean, own = U / V, X / D
        variance = T / D - own**2
        reach = off_by(u - mean * v for u, v, *_ in sums) / V
        s, w = released["s"], released["w"]
        uneven = [
            (a - b) * min(max(s[i][j] / w[i][j] - 0.5, -0.5), 0.5)
            for a, b, i, j in pairs
            if w[i][j]
        ]
        reach += 2 * abs(sum(uneven)) / sum(a + b for a, b, *_ in pairs)
        slack = (own**2 - variance, 2 * own)
        error = off_by(t - slack[1] * x + slack[0] * d for _, _, t, x, d in sums) / D
        values = [(1 + each) / 2 for each in (mean, mean - reach, mean + reach)]
        ends = (variance, variance - error, max(variance, 0.0) + error)
        values += [math.sqrt(min(max(each, 0.0), 1.0)) / 2 for each in ends]
        found |= dict(zip(names, (min(max(each, 0.0), 1.0) for each in values), strict=True))
    for name, value in found.items():
        said = told[name]
        if (said is None) != (value is None) or abs((said or 0) - (value or 0)) > 1e-9:
            yield f"released.presentation.{name}"


def check_sums(release: Document, say: Findings) -> None:
    """That what is said of sums of privatised answers follows from these sums."""
    released = release["released"]
    parts = {
        "the effect of the item shown first follows from its sums": (
            unlike_order(released) if released.get("presentation") else None
        ),
        "the weights of people who chose their own epsilon follow from the sums": (
            unlike_weights(release) if released.get("alike") else None
        ),
    }
    for right, found in parts.items():
        if found is not None:
            unfit = ", ".join(found)
            text = f"release.json: {unfit} does not follow from the sums"
            say.check(not unfit, right, wrong=text)


def unlike_weights(release: Document) -> Iterator[str]:
    """What a release says of the weights of answers with their own epsilon, and its sums do not."""
    released, told = release["released"], release["privacy"]["parameters"]
    sums, unit, chosen = released["alike"], released["unit"], released["chosen"] or {}
    w, alike, squares, squared = (
        [each * unit for each in numbers_in(table)]
        for table in (released["w"], *(sums[name] for name in ("w", "squares", "squared_weights")))
    )
    answers, least = sum(chosen.get("answers", ())), max(math.tanh(chosen.get("low", 1) / 2), 1e-9)
    slack = 2 * unit * answers  # each term is rounded
    if abs(sum(alike) - least * answers) > slack + 1e-9 * answers:
        yield "released.alike.w"
    if any(
        not least * v - slack <= q <= v / least + slack for v, q in zip(alike, squares, strict=True)
    ):
        yield "released.alike.squares"
    if any(not 0 <= r <= v + slack for v, r in zip(w, squared, strict=True)):
        yield "released.alike.squared_weights"
    equal = told.get("weights") == "equal"
    effective = answers if equal else sum(w) ** 2 / max(sum(squared), 1e-300)
    if not math.isclose(told.get("effective_answers", -1), effective, rel_tol=1e-6, abs_tol=1e-6):
        yield "parameters.effective_answers"
    warned = any(each.startswith(ANSWERS_DIFFER) for each in release["warnings"])
    far = [apart_by_weights(released, least, capped=capped) for capped in (False, True)]
    if told.get("weights") not in ("precision", "equal") or (equal and warned):
        yield "parameters.weights"
    elif not equal and ((warned and not far[0]) or (far[1] and not warned)):
        yield "warnings"


ANSWERS_DIFFER = "People who chose more privacy may answer differently"


def apart_by_weights(released: Document, least: float, *, capped: bool) -> bool:
    """Whether shares weighed by epsilon and all alike differ for an item by more than chance; a cap
    on epsilon, which the certificate does not name, adds to what chance gives."""
    sums, unit, n = released["alike"], released["unit"], len(released["items"])
    apart, variance, rounding = [0.0] * n, [0.0] * n, [0.0] * n
    for i in range(n):
        others = range(n) if released["pairs"] is None else released["pairs"][i]
        tables = (released["s"], released["w"], sums["s"], sums["w"], sums["squares"])
        for j, *cell in zip(others, *(table[i] for table in tables), strict=True):
            s, w, own, alike, squares = (each * unit for each in cell)
            if w > 0 < alike:
                found = s - w * own / alike
                chance = (w * w * squares / alike**2 + (w if capped else -w)) / 4
                for item, sign in ((i, 1), (j, -1)):
                    apart[item] += sign * found
                    variance[item] += chance
                    rounding[item] += 2 * w * unit / least**2
    reach = -NormalDist().inv_cdf(0.025 / n)
    return any(
        abs(each) > reach * math.sqrt(max(v, 0.0)) + r
        for each, v, r in zip(apart, variance, rounding, strict=True)
    )


def unlike_levels(release: Document) -> Iterator[str]:
    """Tables of levels of epsilon that do not add up to the table of all rankings, and epsilons
    that are no level."""
    released, told = release["released"], release["privacy"]["parameters"].get("levels_of_epsilon")
    levels = released.get("by_epsilon")
    if (levels is None) != (told is None):
        yield "released.by_epsilon"
    if not levels:
        return
    epsilons = [digits(each["epsilon"]) for each in levels]
    if not {*epsilons} <= {*str(told).split(", ")} or len({*epsilons}) < len(epsilons):
        yield "released.by_epsilon.epsilon"
    for name in levels[0].keys() - {"epsilon", "pairs", "by_place"}:
        flat = name in ("rankings", "people")
        rows = [[each[name]] if flat else each[name] for each in (released, *levels)]
        tables = [numbers_in(each) for each in rows]
        if tables[0] != [sum(column) for column in zip(*tables[1:], strict=True)]:
            yield f"released.{name}"


NORMAL_95 = 1.959963984540054  # standard errors to each side of a 95 % interval


def unlike_profiles(certificate: Document, release: Document) -> Iterator[str]:
    """Parts of scores by features of people that do not follow from the others."""
    released, told = release["released"], release.get("personal")
    parts = released.get("by_profile")
    read = certificate["rows"]["settings"].get("person_features")
    if not (told and parts is not None and read):
        yield "personal"
        return
    given = {each["name"]: each["numbers"] or each["words"] for each in told["features"]}
    if given != {name: [*values] for name, values in read.items()}:
        yield "personal.features"
        return
    known = [each["features"] for each in parts]
    listed = all(
        each.keys() == given.keys() and all(v in given[name] for name, v in each.items())
        for each in known
    )
    if not listed or any(each in known[:k] for k, each in enumerate(known)):
        yield "released.by_profile.features"
        return
    for name in ("rankings", "wins", "asked", "squares", "moments"):
        rows = [[each[name]] if name == "rankings" else each[name] for each in (released, *parts)]
        tables = [numbers_in(each) for each in rows]
        if tables[0] != [sum(column) for column in zip(*tables[1:], strict=True)] and parts:
            yield f"released.{name}"
    yield from unlike_personal(release, told, parts)


def codes_of(features: list[Document], person: Document) -> list[float]:
    """What the features of a person are in a score."""
    found: list[float] = []
    for each in features:
        value, numbers = person[each["name"]], each["numbers"]
        if numbers:
            low, high = numbers[0], numbers[-1]
            found.append((value - (low + high) / 2) / ((high - low) / 2))
        else:
            found += [float(value == word) for word in each["words"][1:]]
    return found


def unlike_personal(release: Document, told: Document, parts: list[Document]) -> Iterator[str]:
    """The same of coefficients, and of what is said of them."""
    items, size = release["released"]["items"], len(told["coefficients"])
    n, answered = len(items), [each for each in parts if any(map(any, each["asked"]))]
    codes = [
        (sum(each["rankings"]), codes_of(told["features"], each["features"])) for each in answered
    ]
    total, width = sum(m for m, _ in codes), len(told["mean_features"])
    mean = [sum(m * x[j] for m, x in codes) / max(total, 1) for j in range(width)]
    if total != told["rankings"] or not all(map(is_close, mean, told["mean_features"])):
        yield "personal.mean_features"
    features = told["item_features"]
    if not told["of_items"]:
        features = [[float(a == b) - 1 / n for b in range(n)] for a in range(n)]
    wide = len(told["of_items"]) or n
    rows = told["covariance"]
    sizes = [size, len(told["effects"]), *map(len, features)]
    if sizes != [n + width * wide, width * wide, *[wide] * n]:
        yield "personal.coefficients"
        return
    if len(told["centre"]) != size or [len(each) for each in rows] != [size] * size:
        yield "personal.covariance"
        return
    ends = [(-math.inf, math.inf)] * size
    if told["known"]:
        reach = [NORMAL_95 * math.sqrt(max(rows[k][k], 0.0)) for k in range(size)]
        ends = [(c - r, c + r) for c, r in zip(told["centre"], reach, strict=True)]
    for k, each in enumerate(told["effects"], start=n):
        value, (low, high) = told["coefficients"][k], ends[k]
        found = float(each["low"]), float(each["high"])
        fits = is_close(min(low, value), found[0]) and is_close(max(high, value), found[1])
        if not fits or not is_close(value, each["estimate"]):
            yield "personal.effects"
            break
    base, effects = told["coefficients"][:n], told["coefficients"][n:]
    scores = {line["item"]: line["score"] for line in release["ranking"]}
    for a, item in enumerate(items):
        own = sum(
            mean[j] * effects[j * wide + k] * features[a][k]
            for j in range(width)
            for k in range(wide)
        )
        if release["scale"] == "log-odds" and not is_close(
            base[a] - sum(base) / n + own, scores[item]
        ):
            yield "ranking"
            break


def is_close(one: float, other: float) -> bool:
    """Whether two numbers are alike but for rounding."""
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=2e-6)


def sums_of_pairs(released: Document) -> Iterator[tuple[str, list[list[int]]]]:
    """Sums of privatised answers by their name, each a row an item; none that are not published."""
    for name in ("s", "w"):
        if released.get(name) is not None:
            yield name, released[name]
    for name, rows in (released.get("alike") or {}).items():
        yield f"alike.{name}", rows


def counted_nowhere(released: Document) -> Iterator[str]:
    """Tables with numbers on a diagonal, below it, or off a public graph, where none belong."""
    kind, pairs = released["kind"], released.get("pairs")
    listed = (kind == "pair-counts" and released.get("asked")) or ()
    met = {(i, j) for i, row in enumerate(listed) for j in row}
    graph = None if pairs is None else [{*row} for row in pairs]

    def empty(name: str, counts: Callable[[int, int], bool]) -> Iterator[str]:
        rows = released.get(name) or ()
        if any(v and not counts(i, j) for i, row in enumerate(rows) for j, v in enumerate(row)):
            yield f"released.{name}"

    if kind in ("pair-counts", "tie-counts", "private-rankings", "private-pairs"):
        yield from empty("wins", lambda i, j: bool({(i, j), (j, i)} & met) if met else i != j)
    yield from empty("ties", lambda i, j: i < j)
    yield from empty("above", lambda i, j: i != j)
    margins = released.get("margins") or ()
    if any(v != -margins[j][i] for i, row in enumerate(margins) for j, v in enumerate(row)):
        yield "released.margins"
    if graph is None:
        yield from empty("right_wrong", lambda i, j: i != j)
        if kind == "private-sums":
            for name, rows in sums_of_pairs(released):
                if any(len(row) != len(released["items"]) for row in rows) or any(
                    any(row[: i + 1]) for i, row in enumerate(rows)
                ):
                    yield f"released.{name}"
        return
    yield from empty("right_wrong", lambda i, j: max(i, j) in graph[min(i, j)])
    counts = ((name, released[name]) for name in ("compared", "wins") if released.get(name))
    for name, rows in (*counts, *sums_of_pairs(released)):
        if list(map(len, rows)) != list(map(len, released["pairs"])):
            yield f"released.{name}"
    size = len(released["items"])
    for i, row in enumerate(released["pairs"]):
        if any(not i < j < size for j in row) or len({*row}) < len(row):
            yield "released.pairs"
            break


# 4. Sensitivity: the largest change, as l1 norm and squared l2 norm


@dataclass(frozen=True)
class Bundle:
    """The rows that one unit may have, of a catalogue of `items`."""

    items: int
    rows: int  # L; 1 where the unit is a comparison
    cap: int | None  # rows in which one item occurs, at most
    distinct: bool  # no two rows on one pair
    sides: int  # 1: the unit comes or goes; 2: it is replaced
    weight: int  # what a row adds to a count
    groups: int  # groups with counts of their own
    most: int = 0  # groups in which a row counts at most, beside the whole; 0: they do not overlap
    names: int = 1  # names of a person, each with these rows
    earlier: bool = False  # bounds as earlier versions stated them: larger, and as true

    @property
    def summed(self) -> int:
        """Groups whose counts add up to the whole; 1 where the whole has counts of its own."""
        return 1 if self.most else self.groups

    @property
    def fits(self) -> int:
        """Fits with covariates: of each group and of all rows; 1 where there are no groups."""
        return self.groups + 1 if self.groups > 1 else 1

    @property
    def copies(self) -> int:
        """The most of these fits that a row takes part in."""
        return min(self.fits, 2)

    def shared(self, norms: Norms) -> Norms:
        """Norms where a row adds to `most` groups and to the whole, from those of one group."""
        return (self.most + 1) * norms[0], (self.most + 1) * norms[1]

    def most_rows(self, items: int | None = None) -> int:
        """Rows within all of these bounds together, among so many of the items; None: all."""
        n = self.items if items is None else items
        rows = min(self.rows, n * (n - 1) // 2) if self.distinct or n < 2 else self.rows
        return rows if self.cap is None else min(rows, n * self.cap // 2)


def bundle_of(certificate: Document) -> Bundle:
    """What one unit may add, from what the certificate says of unit, adjacency and bounds."""
    guarantee, domain = certificate["guarantee"], certificate["domain"]
    bounds, unit = domain["bounds"], guarantee["unit"]
    overlap = bounds.get("groups_per_answer") or 0
    if overlap > len(domain["groups"]):
        raise Wrong("an answer counts in more groups than there are")
    if unit == "user" and bounds["max_contributions"] is None:
        raise Wrong("nothing bounds the rows of a person: max_contributions is missing")
    return Bundle(
        items=domain["items"],
        rows=1 if unit == "comparison" else bounds["max_contributions"] or 1,
        cap=bounds["per_item_cap"],
        distinct=bounds["distinct_pairs"],
        sides={"add-remove": 1, "replace-one": 2}[guarantee["adjacency"]],
        weight=2 if domain["ties"] == "split" else 1,
        groups=max(1, len(domain["groups"]) + (1 if overlap else domain["other_rows"])),
        most=overlap,
        names=bounds.get("names_per_person") or 1,
    )


def times(norms: Norms, factor: int, sides: int = 1) -> Norms:
    """Norms of `factor` times the statistic, or of `sides` changes that cannot cancel."""
    return sides * factor * norms[0], sides * factor**2 * norms[1]


def wins_of(b: Bundle, winners: int) -> Norms:
    """Norms of the largest wins of so many items, whose k best win f(k) rows together at most:
    f(k) - f(k - 1) majorises all others [HLP]."""
    rows = b.most_rows()
    won = squares = 0
    for k in range(1, winners + 1):
        together = min(rows, k * (rows if b.cap is None else b.cap))
        if b.distinct:  # pairs that meet the k items
            together = min(together, k * b.items - k * (k + 1) // 2)
        won, squares = together, squares + (together - won) ** 2
        if won == rows:
            break
    return won, squares


def win_counts(b: Bundle) -> Norms:
    """Wins by item. Replaced rows move half of the items up at most and the others down."""
    if b.sides == 1 or b.groups > 1:
        return times(wins_of(b, b.items), b.weight, b.sides)
    more, less = wins_of(b, b.items - b.items // 2), wins_of(b, b.items // 2)
    return times((more[0] + less[0], more[1] + less[1]), b.weight)


def cells_of(b: Bundle) -> Norms:
    """Rows of a bundle, each in one cell of a pair: all in one cell, if they may."""
    rows = b.most_rows()
    in_cell = 1 if b.distinct else rows
    return rows, rows * (in_cell if b.cap is None else min(in_cell, b.cap))


def outcomes(b: Bundle) -> Norms:
    """One entry of a pair, where who compared what is public: the loser's count is no news."""
    if b.sides != 2:
        raise Wrong("outcomes of a public graph are protected under replace-one only")
    return times(cells_of(b), b.weight)


def degrees(b: Bundle) -> int:
    """Sum of squares of the degrees of a graph whose edges are a bundle's rows [C98]."""
    rows, n = b.most_rows(), b.items
    most = 2 * rows * rows if b.cap is None else min(2 * rows * rows, 2 * rows * b.cap)
    if not b.distinct:
        return most
    return min(most, rows * (rows + 1), rows * (2 * rows + (n - 2) * (n - 1)) // (n - 1))


def exposures(b: Bundle) -> Norms:
    """How often each item took part. Replaced rows move some items up, by rows among them alone,
    and the others down."""
    rows, n = b.most_rows(), b.items
    if b.sides == 2 and b.earlier:
        rows *= 2
    elif b.sides == 2:
        rows = max(b.most_rows(k) + b.most_rows(n - k) for k in range(n // 2 + 1))
    return times((2 * rows, b.sides * degrees(b)), b.weight)


def win_loss(b: Bundle) -> Norms:
    """Wins and losses of each item: both are degrees; distinct pairs are a tournament at most. What
    moves between two bundles is 2 n L at most by eigenvalues, those of complete graphs."""
    rows, n, alone = b.most_rows(), b.items, degrees(b)
    between = 2 * n * (n**2 - 1) // 3
    if b.distinct and not b.earlier:
        between = min(between, 2 * n * rows)
        if is_searched(b):
            found, between = searched(n, rows)
            alone = min(alone, found)
    l1, l2_squared = 2 * b.sides * rows, b.sides * alone
    l2_squared = min(l2_squared, 2 * win_counts(replace(b, weight=1))[1])
    if b.distinct and b.sides == 2 and b.groups == 1:
        l1, l2_squared = min(l1, 4 * (n**2 // 4)), min(l2_squared, between)
    return times((l1, l2_squared), b.weight)


def is_searched(b: Bundle) -> bool:
    """Whether a search of few shapes finds the norms; with fewer rows a star is the most."""
    return b.distinct and b.items <= b.most_rows() <= 20


@functools.cache
def searched(items: int, rows: int) -> Norms:
    """Largest squares of wins and losses on distinct pairs: of a bundle, and between two.

    `privacy/sensitivity.py` proves that both are attained where item i beats the r_i last items,
    r_1 >= r_2 >= ..., and that v, turned round, is such a bundle, too."""

    def shapes(n: int, left: int, widest: int) -> Iterable[tuple[int, ...]]:
        yield ()
        for r in range(1, min(n - 1, left, widest) + 1):
            yield from ((r, *others) for others in shapes(n - 1, left - r, r))

    found = []
    for beaten in shapes(items, rows, items):
        wins = beaten + (0,) * (items - len(beaten))
        losses = tuple(sum(r >= items - i for r in beaten) for i in range(items))
        found.append((sum(each**2 for each in wins + losses), wins + losses, losses + wins))
    found.sort(reverse=True)
    most = 0
    for place, (squares, counts, _) in enumerate(found):
        for others, _, turned in found[place:]:
            if squares + others <= most:  # what they share makes it less
                break
            common = sum(x * y for x, y in zip(counts, turned, strict=True))
            most = max(most, squares + others - 2 * common)
    return found[0][0], most


UNIT = 1000  # integer units of a row of weight 1, where rows have weights
SHARE = 100  # one part in so many of a sensitivity is for the sum of squared weights
PLAIN: dict[str, Callable[[Bundle], Norms]] = {
    "win_counts_sensitivity": win_counts,
    "win_loss_sensitivity": win_loss,
    "pair_counts_sensitivity": lambda b: times(cells_of(b), b.weight, b.sides),
    "tie_counts_sensitivity": lambda b: times(cells_of(b), 1, b.sides),  # ties are not split
    "outcomes_sensitivity": outcomes,
    "exposures_sensitivity": exposures,
}
RANKED = ("ranking_sensitivity", "ranking_below_sensitivity")
DERIVATION_OF = {  # by which derivation the counts that were published got their noise
    "win-counts": "win_counts_sensitivity",
    "pair-counts": "pair_counts_sensitivity",
    "win-loss-counts": "win_loss_sensitivity",
    "tie-counts": "tie_counts_sensitivity",
    "outcome-counts": "outcomes_sensitivity",
    "top-list": "one_shot_sensitivity",
    "right-wrong-counts": "measurement_sensitivity",
    "sheet-totals": "sheet_totals_sensitivity",
    "point-totals": "point_totals_sensitivity",
    **dict.fromkeys(COUNTED_LISTS, "ranking_sensitivity"),
    "scores": "gradient_sensitivity",
    "scores-and-effects": "calibrate_covariates",
}


def weighted(
    b: Bundle, counts: Callable[[Bundle], Norms], most: int, by_weights: bool, laplace: bool
) -> tuple[Norms, int]:
    """Counts of weighted rows with their sum of squares, and what divides that sum.

    `most` is the heaviest row in units. `by_weights`: people with many rows count with weights
    that keep the squared l2 norm of L rows; their l1 norm grows by Cauchy and Schwarz.
    """
    squares = counts(replace(b, sides=1, weight=1, groups=1))[1] if by_weights else b.rows
    norms = counts(b)
    if by_weights:
        rows = 1 + math.isqrt(squares * (b.items * (b.items - 1) // 2))
        cells = 2 if counts is win_loss else 1
        norms = b.sides * cells * b.weight * rows, b.sides * b.weight**2 * squares
    norms = times(norms, most)
    squares *= most**2
    room = norms[0] // SHARE if laplace else math.isqrt(norms[1] // SHARE)
    divisor = -(-squares // room)
    free = 2 * most if laplace else 1 + math.isqrt(4 * squares - 1)  # privacy/row_weights.py
    if free <= divisor and norms_add_up(b, counts, by_weights, laplace) and not b.earlier:
        return norms, free
    moves = -(-squares // divisor)
    return (norms[0] + moves, norms[1] + moves**2), divisor


def norms_add_up(
    b: Bundle, counts: Callable[[Bundle], Norms], by_weights: bool, laplace: bool
) -> bool:
    """Whether the sum of squared weights costs nothing (proof in privacy/row_weights.py)."""
    place = 0 if laplace else 1
    known = counts is PLAIN["pair_counts_sensitivity"] or not by_weights
    return known and counts(b)[place] == 2 * counts(replace(b, sides=1))[place]


def rankings(b: Bundle, k: int, n: int, weights: Mapping[str, int]) -> Norms:
    """Weighted parts of at most L lists of k items, above all others of n. A norm is convex, so it
    is largest at a corner: L lists appear, or as many of opposite nets replace them, in other
    groups where these are counted apart, and where they overlap in some of the same."""
    most, sides, groups, overlap = b.rows, b.sides, b.groups, b.most
    if not 2 <= k <= n or most < 1 or not weights or min(weights.values()) < 1:
        raise Wrong("rankings need two items, one list and weights of at least 1")
    told = math.comb(n, 2) - math.comb(n - k, 2)
    nets = [n - 1 - 2 * place for place in range(k)] + [-k] * (n - k)
    one, two, four = (sum(abs(x) ** power for x in nets) for power in (1, 2, 4))
    comes = {"above": (told, told), "places": (n, n), "nets": (one, two), "squares": (two, four)}
    changes = {part: (2 * l1, 2 * l2_squared) for part, (l1, l2_squared) in comes.items()}
    apart = [x - y for x, y in zip(nets, nets[::-1], strict=True)]
    changes["nets"] = (sum(map(abs, apart)), sum(x * x for x in apart))
    comes["rounds"], changes["rounds"] = (n - 1, n - 1), (2 * (n - 1), 2 * (n - 1))
    comes["margins"] = (told, told)
    changes["margins"] = (2 * told, 2 * (told + sum(min(k, n - 1 - place) for place in range(k))))
    comes["rankings"], changes["rankings"] = (1, 1), (0, 0)
    for level in LEVELS:  # one cell, or another one
        comes[level], changes[level] = (1, 1), (2, 2)
    moved = {part: most * weight for part, weight in weights.items()}
    corners = [(0, overlap + 1 if overlap or sides == 1 or groups == 1 else 2)]
    turned = range(overlap + 1 if sides == 2 else 0)  # groups in which lists replace others
    corners += [(c + 1, min(2 * (overlap - c), groups - 1 - c)) for c in turned]
    l1, gone1 = (sum(w * each[part][0] for part, w in moved.items()) for each in (changes, comes))
    l2, gone2 = (sum(w * w * each[p][1] for p, w in moved.items()) for each in (changes, comes))
    return max(x * l1 + y * gone1 for x, y in corners), max(x * l2 + y * gone2 for x, y in corners)


def measurements(rows: int, sides: int, items: int, edges: int | None, degree: int | None) -> Norms:
    """Ones that a person adds to a table of (right on i, wrong on j) on a public graph: a cut."""
    answers = min(rows, items)
    edges = items * (items - 1) // 2 if edges is None else edges
    degree = items - 1 if degree is None else degree
    moved = sides * min(answers**2 // 4, edges, answers // 2 * degree)
    return moved, moved


def sheet_totals(rows: int, sides: int, items: int, answer_weight: int, sheet_weight: int) -> Norms:
    """Two whole sheets of opposite answers: each item's total moves from -a to a, and the sheet
    from no point to all of them; or a sheet that comes, and moves each total from 0."""
    totals = [sides * answer_weight] * min(rows, items)
    moves = [*totals, *[sheet_weight] * sides]
    return sum(moves), sum(each**2 for each in moves)


def point_totals(
    sides: int, points: Sequence[int], answer_weight: int, sheet_weight: int, share: int
) -> Norms:
    """Two whole sheets, one without a point and one with all: each item leaves a cell for another,
    and the sheet a score. Or a sheet that comes, which takes an equal share off an item's cells."""
    if share > 1 and (sides > 1 or any(share % (most + 1) for most in points)):
        raise Wrong("shares are for sheets that come or go, and for every number of points")
    moves = [sheet_weight] * sides
    for most in points:
        if share > 1:
            lost = share // (most + 1)
            moves += [answer_weight * (share - lost), *[answer_weight * lost] * most]
        else:
            moves += [answer_weight] * sides
    return sum(moves), sum(each**2 for each in moves)


def graph_sizes(pairs: list[list[int]] | None) -> tuple[int | None, int | None]:
    """Edges and largest degree of a public graph, as release.json lists it."""
    if pairs is None:
        return None, None
    ends = Counter(i for item, more in enumerate(pairs) for each in more for i in (item, each))
    return sum(map(len, pairs)), max(ends.values())


INPUTS_OF_SHEETS = ("n", "L", "sides", "answer_weight", "sheet_weight")
OF_TESTS: dict[str, Callable[[Bundle, Document], Norms]] = {
    "measurement_sensitivity": lambda b, released: measurements(
        b.rows, b.sides, b.items, *graph_sizes(released["pairs"])
    ),
    "sheet_totals_sensitivity": lambda b, released: sheet_totals(
        b.rows, b.sides, b.items, released["answer_weight"], released["sheet_weight"]
    ),
    "point_totals_sensitivity": lambda b, released: point_totals(
        b.sides,
        [*released_points(released).values()],
        *(released[each] for each in ("answer_weight", "sheet_weight", "share")),
    ),
}


def encoder(window: int | None, bands: int) -> list[int]:
    """The first column of the square root of the matrix of ones for `window` nights, in 2^-20:
    binomials C(2 i, i) / 4^i, whose convolution with themselves is 1, 1, ... [FHU22]."""
    if window is not None and bands > window:
        raise Wrong("the encoder has more bands than its window has nights")
    c = [ONE]
    for i in range(1, bands):
        c.append(up(c[-1] * (2 * i - 1) / (2 * i)))
    return [math.floor(each * 2**20 + Fraction(1, 2)) for each in c]


def stream(
    night: Norms, sides: int, nights: int, participations: int, gap: int, column: Sequence[int]
) -> Norms:
    """All nights of a stream together, `night` being the norms of a person on one of them: columns
    that a person touches do not overlap, for they are no longer than the gap."""
    if not 1 <= len(column) <= gap or min(column) < 0 or participations < 1:
        raise Wrong("the encoder has more bands than nights lie between two of a person's")
    l1 = l2_squared = 0
    for first in range(0, nights, gap)[:participations]:
        seen = column[: nights - first]
        l1, l2_squared = l1 + sum(seen), l2_squared + sum(each**2 for each in seen)
    return sides * l1 * night[0], sides * l2_squared * night[1]


METERS = {"rows": ("pair_gap", "pair-counts"), "squares": ("gap", "win-loss-counts")}


def metered_norms(b: Bundle, metered: Document, column: Sequence[int], kind: str) -> Norms:
    """All nights of a stream that meters rows on pairs, or squares: l rows on distinct pairs move
    wins and losses by l^2 + l. Rows on one pair, or nights, are a gap apart, so columns that move
    one cell do not overlap. Rows on two pairs may be wins of one item: their gap is for pairs."""
    unit = "rows" if "rows" in metered else "squares"
    apart, counted = METERS[unit]
    if {*metered} - {"burst", "refill"} != {unit, apart} or kind != counted or not b.distinct:
        raise Wrong(f"{unit} are metered for {counted}, each row of a person on its own pair")
    if not 1 <= len(column) <= metered[apart] or min(column) < 0:
        raise Wrong("the encoder has more bands than nights lie between rows that move one cell")
    if not 1 <= metered["burst"] <= metered[unit] or not fraction(metered.get("refill") or 1) > 0:
        raise Wrong("more may count on the first night than on all nights")
    most = b.sides * b.weight * metered[unit]
    return most * sum(column), most * b.weight * sum(each**2 for each in column)


def stream_norms(b: Bundle, stated: Sequence[int], terms: Document, release: Document) -> Norms:
    """All nights of a stream whose encoder has the coefficients `stated`, from its terms."""
    metered, kind = terms.get("participation"), release["released"]["kind"]
    nights, often, gap = (terms[name] for name in ("nights", "participations", "gap"))
    gap = metered.get("pair_gap") or metered.get("gap") if metered else gap
    if gap is None or (often is None) != bool(metered):
        raise Wrong("the nights of a stream count a person's nights or rows, one of the two")
    if len(stated) > min(gap, nights):
        raise Wrong("the encoder has more bands than nights lie between two of a person's")
    column = list(stated)
    if release["stream"]["coefficients"] != column or not column or column[0] != 2**20:
        raise Wrong("the release and the certificate state different encoders of the stream")
    if terms["window"] is not None and column != encoder(terms["window"], len(column)):
        raise Wrong("the encoder of the stream has other coefficients than the square root")
    if metered:
        return metered_norms(b, metered, column, kind)
    night = PLAIN[DERIVATION_OF.get(kind, "")](replace(b, sides=1, groups=1))
    return stream(night, b.sides, nights, often, gap, column)


def count_norms(
    draw: Document, certificate: Document, release: Document, earlier: bool = False
) -> Norms:
    """Sensitivity of the counts of a draw, from the domain and from what was published; `earlier`:
    by the bounds of earlier versions, which were not exact for few items."""
    b, inputs = replace(bundle_of(certificate), earlier=earlier), draw["inputs"]
    released, derivation = release["released"], derivation_of(draw)
    bounds, named = certificate["domain"]["bounds"], DERIVATION_OF.get(released["kind"], "")
    heavy = b.weight * (UNIT if derivation == "weighted_sensitivity" else 1)
    if released.get("row_weight", heavy) != heavy and "look" not in derivation:
        raise Wrong(f"a row adds {released['row_weight']} to what was published, not {heavy}")
    if derivation in PLAIN:
        return b.shared(PLAIN[derivation](b))
    if derivation == "votes_sensitivity":  # of two counts, to one of which a unit adds one, and of
        return (b.sides + counts_items(release),) * 2  # a third one, to which it adds one at most
    if derivation in QUERIES:
        return query_norms(derivation, b)
    if derivation == OF_NAMES:  # d names of a person add 2^20 / sqrt(d) to each, rounded down
        return b.sides * inputs["c"] * math.isqrt(2**40 // inputs["c"]), b.sides * 2**40
    if derivation == "stream_sensitivity":
        nights = certificate["domain"]["stream"]
        return b.shared(stream_norms(b, inputs["coefficients"], nights, release))
    if derivation == "weighted_sensitivity":
        most = round(fraction(bounds["max_weight"] or 1) * UNIT)
        laplace, by_weights = draw["law"]["kind"] == "laplace", bounds["bounding"] == "weights"
        return weighted(b, PLAIN[named], most, by_weights, laplace)[0]
    if derivation == "one_shot_sensitivity":  # of the named items, or of all counts
        if not released["items"] or b.groups > 1 or draw["law"]["kind"] != "laplace":
            raise Wrong("a list of the best names items of one ranking, by Laplace noise")
        most = min(b.rows, b.cap or b.rows, b.items - 1 if b.distinct else b.rows)
        moved = min(b.sides * len(released["items"]) * most * b.weight, win_counts(b)[0])
        return moved, moved**2
    if derivation in RANKED:
        longest = release["privacy"]["parameters"]["longest_ranking"]
        weights = {part: inputs[part] for part in RANKED_PARTS if inputs.get(part)}
        apart = 1 if released["kind"] == "precinct-counts" else b.groups
        return rankings(replace(b, groups=apart), longest, inputs.get("n", longest), weights)
    if derivation in OF_TESTS:
        return OF_TESTS[derivation](b, released)
    if derivation == "calibrate_covariate_mle":  # how far a row moves three kinds of sums of 1/64
        q, first = len(release["effects"]), release["effects"][0]["scale"] is None
        kinds = (2, 128 * q, 4096 * (q * (q + 1) // 2 - first))
        if inputs["moved"] != kinds[inputs["kind"]]:
            raise Wrong(f"no sum of information moves by {inputs['moved']}")
        l1 = b.copies * b.sides * b.most_rows() * b.weight * 1024 * inputs["moved"]
        return l1, l1**2
    raise Wrong(f"nobody here knows a derivation {derivation}")


def query_norms(derivation: str, b: Bundle) -> Norms:
    """How far a unit moves a query beside the ranking: a person counts once or not at all, has from
    none to L answers, and is in one of two numbers of contradictions or in none."""
    l1 = {"people": 1, "answers": b.rows, "contradictions": b.sides}[QUERIES[derivation][1]]
    return l1, l1**2 if derivation == "answers_sensitivity" else l1


def step_of(draw: Document, b: Bundle) -> Fraction:
    """What 1 is worth in the numbers whose sensitivity `count_norms` computes."""
    derivation = derivation_of(draw)
    if derivation == "calibrate_covariate_mle":
        kinds = (1, 64, 4096)  # of covariates in 1/64, which 0, 1 or 2 times are a factor
        return Fraction(1, 4096 * kinds[draw["inputs"]["kind"]] * b.weight)
    return Fraction(1, 2**20) if derivation in ("stream_sensitivity", OF_NAMES) else ONE


def derivation_of(draw: Document) -> str:
    """The last part of its name."""
    return str(draw["derivation"]).rpartition(".")[2]


# 5. Noise


@dataclass(frozen=True)
class Loss:
    """What a draw costs, at most: a pure epsilon, a delta, and Gaussian changes by variance."""

    epsilon: Fraction = NONE
    delta: Fraction = NONE
    gaussian: tuple[tuple[int, Fraction], ...] = ()


MOST_NAMES = 100


def most_names(release: Document) -> int:
    """How many names of a person count."""
    most: int = release["privacy"]["parameters"]["names_of_a_person"]
    if not 1 <= most <= MOST_NAMES:
        raise Wrong(f"{most} names of a person count, and none has more than {MOST_NAMES}")
    return most


def alone_delta(draw: Document) -> Fraction:
    """Upper bound of the chance that a name of one person alone is published.

    A person with t such names gives each at most 1 / sqrt(t); of their noise one of t reaches the
    rest of the threshold, the tail of the discrete Gaussian being below that of the normal, a unit
    further in ([CKS20], Proposition 25)."""
    scale, worst = fraction(draw["law"]["scale"]), NONE
    for t in range(1, draw["inputs"]["c"] + 1):
        apart = draw["threshold"] - math.isqrt(2**40 // t) - 1
        worst = max(worst, t * tail_bounds(down(apart / scale))[1])
    return worst


def inputs_of(draw: Document, certificate: Document, release: Document, b: Bundle) -> Document:
    """The integers that a sensitivity has to start from, by the names that its formula uses."""
    derivation, released = derivation_of(draw), release["released"]
    law, terms, told = draw.get("law"), certificate["domain"]["stream"], release.get("stream") or {}
    of_unit: Document = {"n": b.items, "L": b.rows, "c": b.cap or b.rows, "sides": b.sides}
    of_unit["distinct"] = int(b.distinct)
    counted = {**of_unit, "row_weight": b.weight, "groups": b.groups, **overlap_of(b)}
    named = DERIVATION_OF.get(released["kind"], "")
    if named == "win_loss_sensitivity" and derivation != "votes_sensitivity" and not b.earlier:
        counted["searched"] = [*searched(b.items, b.most_rows())] if is_searched(b) else []
    if derivation in BEFORE:
        return inputs_before(derivation, release, b)
    if derivation == "tie_counts_sensitivity":  # ties are not split
        return {**counted, "row_weight": 1}
    if derivation == "weighted_sensitivity":
        return counted | inputs_of_weights(law, certificate["domain"]["bounds"], b, PLAIN[named])
    if derivation == "stream_sensitivity" and terms.get("participation"):
        own = {k: v for k, v in terms["participation"].items() if k in METERS} | overlap_of(b)
        return own | {"row_weight": b.weight, "both": b.sides, "coefficients": told["coefficients"]}
    if derivation == "stream_sensitivity":
        own = {name: terms[name] for name in ("nights", "participations", "gap")}
        own |= {"sides": 1, "both": b.sides, "groups": 1}
        return {**counted, **own, "coefficients": release["stream"]["coefficients"]}
    if derivation == "one_shot_sensitivity":
        return {**counted, "k": len(released["items"])}
    if derivation == "measurement_sensitivity":
        edges, degree = graph_sizes(released["pairs"])
        own = {"edges": edges or b.items * (b.items - 1) // 2, "degree": degree or b.items - 1}
        return {**{name: of_unit[name] for name in ("n", "L", "sides")}, **own}
    if derivation in ("sheet_totals_sensitivity", "point_totals_sensitivity"):
        return inputs_of_sheets(of_unit | released)
    if derivation in RANKED:
        if released["kind"] == "precinct-counts":
            levels = dict.fromkeys(LEVELS, 0) | released["weights"]
            return {"L": b.rows, "sides": b.sides, **levels}
        parts = dict.fromkeys(NAMED_PARTS, 0) | ({"n": b.items} if derivation == RANKED[1] else {})
        if b.groups > 1 or "groups" in draw["inputs"]:  # earlier versions had no groups of these
            parts |= {"groups": b.groups, **overlap_of(b)}
        longest = release["privacy"]["parameters"]["longest_ranking"]
        return {"L": b.rows, "sides": b.sides, "longest": longest, **parts, **released["weights"]}
    if derivation == "gradient_sensitivity":
        return {**of_unit, "public": int(draw["public_graph"])}
    effects = release.get("effects") or []
    if derivation == "calibrate_covariates":
        return {**of_unit, "effects": len(effects), **fits_of(b)}
    if derivation == "calibrate_covariate_mle":
        own = {"effects": len(effects), "first": int(effects[0]["scale"] is None), "units": 1024}
        own |= {name: draw["inputs"][name] for name in ("kind", "moved")}  # see `count_norms`
        return {**of_unit, **own, "row_weight": b.weight, **fits_of(b)}
    return counted


def overlap_of(b: Bundle) -> Document:
    """The most groups of a row; nothing where groups do not overlap."""
    return {"overlap": b.most} if b.most else {}


def fits_of(b: Bundle) -> Document:
    """The most fits of a row with covariates; nothing where there are no groups."""
    return {"fits": b.copies} if b.groups > 1 else {}


def inputs_before(derivation: str, release: Document, b: Bundle) -> Document:
    """Those of names that people wrote, of a look, and of counts beside the ranking."""
    if derivation == OF_NAMES:
        return {"sides": b.sides, "c": most_names(release)}
    if derivation in QUERIES:
        inputs = {"people": {"numbers": 1}, "answers": {"L": b.rows}}
        return inputs.get(QUERIES[derivation][1], {"sides": b.sides})
    return {"sides": b.sides, **({"unlisted": 1} if counts_items(release) else {})}


def inputs_of_weights(
    law: Document | None, bounds: Document, b: Bundle, plain: Callable[[Bundle], Norms]
) -> Document:
    """Those that weights of rows add to the counts of this plain sensitivity."""
    heaviest, by_weights = fraction(bounds["max_weight"] or 1), bounds["bounding"] == "weights"
    own: Document = {"groups": 1, "most_units": round(heaviest * UNIT), "share": SHARE}
    own["laplace"] = int(law["kind"] == "laplace") if law else 0
    if by_weights:
        own |= {"sides": 1, "both": b.sides, "row_weight": 1, "weight": b.weight}
    if not b.earlier:
        own["add_up"] = int(norms_add_up(b, plain, by_weights, bool(own["laplace"])))
    return own


def inputs_of_sheets(known: Document) -> Document:
    """Those of a test; of one with points also what its items may give, which the counts tell."""
    inputs = {each: known[each] for each in INPUTS_OF_SHEETS}
    if known["kind"] == "sheet-totals":
        return inputs
    return {**inputs, "share": known["share"], "points": [*released_points(known).values()]}


def check_inputs(draw: Document, wanted: Document) -> None:
    """That a sensitivity starts from these, and from nothing else."""
    for name in (*draw["inputs"], *wanted):
        stated, found = draw["inputs"].get(name), wanted.get(name)
        if stated != found or isinstance(stated, bool) or name not in wanted:
            raise Wrong(
                f"the sensitivity of {draw['what']} starts from {name} = {short(stated)}, and the"
                f" bounds of the certificate and what is published say {short(found)}"
            )


def count_loss(draw: Document, certificate: Document, release: Document) -> Loss:
    """Loss of noise on counts, of which the sensitivity is computed again: l1 / scale of Laplace
    noise [GRS12]; squared l2 change and variance of discrete Gaussian noise [CKS20]."""
    stated, b, what = draw["sensitivity"], bundle_of(certificate), draw["what"]
    named = {"names": b.names} if b.names > 1 else {}
    norms, before = (
        times(count_norms(draw, certificate, release, earlier), b.names)  # each name moves so much
        for earlier in (False, True)
    )
    wanted = [
        inputs_of(draw, certificate, release, replace(b, earlier=earlier)) | named
        for earlier in (False, True)  # which stated fewer of them
    ]
    alike = (each for each in wanted if each.keys() == draw["inputs"].keys())
    check_inputs(draw, next(alike, wanted[0]))
    if fraction(draw["law"]["step"]) != step_of(draw, b):
        raise Wrong(f"the noise of {what} is in steps of {draw['law']['step']}, and its counts not")
    told = stated["l1"], stated["l2_squared"]
    if told not in (norms, before):
        raise Wrong(
            f"the sensitivity of {what} is l1 = {norms[0]}, l2^2 = {norms[1]}, and the"
            f" certificate says {told[0]} and {told[1]}"
        )
    law, scale = draw["law"], fraction(draw["law"]["scale"])
    if draw["mechanism"] == "gaussian-threshold" and law["kind"] == "gaussian" and scale:
        return Loss(delta=alone_delta(draw), gaussian=((told[1], scale**2),))
    if law["kind"] not in ("laplace", "gaussian") or draw["mechanism"] != f"discrete-{law['kind']}":
        raise Wrong(f"{what} got no noise, or noise of another law than its name says")
    if law["kind"] == "gaussian":
        return Loss(gaussian=((told[1], scale**2),))
    return Loss(told[0] / scale)


def gradient(b: Bundle, loss: Document, public: bool) -> dict[str, Any]:
    """How far one unit moves the gradient of a likelihood [CCW]; squares of l2 norms.

    A row moves two entries by `slope` at most; rows on one pair move the same two, and a row that
    is replaced moves them by kappa1 together.
    """
    slope, kappa1 = fraction(loss["slope"]), fraction(loss["kappa1"])
    logistic, n, no_bound = loss["even_curvature"], b.items, 4 * (b.rows + 1) * (b.items + 1)
    pairs = n * (n - 1) // 2 if b.distinct else no_bound
    pairs_across = n**2 // 4 if b.distinct else no_bound
    cap = b.rows if b.cap is None else b.cap
    rows = min(b.most_rows(), pairs)
    across = min(b.rows, n // 2 * cap if b.cap is not None else b.rows, pairs_across, rows)
    single = min(b.rows, cap, n - 1 if b.distinct else b.rows, rows)  # rows that meet one item
    if public:
        if b.sides != 2:
            raise Wrong("a public graph needs adjacency replace-one")
        l2, told = kappa1**2 * 2 * across * single, 0 if logistic else rows
        terms, term = (1, l2) if logistic else (rows, 2 * kappa1**2)
        l1, within, directions = 2 * kappa1 * across, told, 1
    else:
        l1, apart, term = 2 * slope * across, across, 2 * slope**2
        if b.sides == 2:
            l1 = min(2 * l1, 2 * kappa1 * pairs_across)
            apart, term = min(2 * across, pairs_across), (6 if logistic else 8) * slope**2
        l2 = min((b.sides * slope) ** 2 * 2 * across * single, rows**2 * term)
        told, within = rows, min(rows, min(b.sides * rows, pairs) - apart)
        terms, directions = rows, b.sides
    found = {"l1": l1, "l2_squared": l2, "rows": told, "within": within, "slope": slope}
    return {**found, "terms": terms, "term_squared": term, "directions": directions}


OPTIMISED = ("gradient_sensitivity", "calibrate_covariates")  # derivations of objective_loss
LINKS = {"logistic": (ONE, ONE, Fraction(1, 4), True), "laplace": (ONE, 2 * ONE, 2 * ONE, False)}


def objective_loss(draw: Document, b: Bundle, effects: int) -> Loss:
    """Loss of noise inside an optimisation [KST12], [CCW]: sensitivity / scale, and the parts for
    curvature and rounding."""
    scale, ridge, loss = fraction(draw["scale"]), fraction(draw["ridge"]), draw["loss"]
    share, step = fraction(draw["share"]), fraction(draw["laws"][-1]["step"])
    for law, part in zip(draw["laws"], (ONE, share), strict=False):
        if fraction(law["scale"]) * fraction(law["step"]) * part < scale:
            raise Wrong("the noise was drawn at a smaller scale than the certificate claims")
    told = *(fraction(loss[name]) for name in ("slope", "kappa1", "kappa2")), loss["even_curvature"]
    if LINKS.get(loss["link"]) != told:
        raise Wrong(f"the loss of link {loss['link']} has other bounds than the certificate says")
    kinds = {law["kind"] for law in draw["laws"]} | {draw["mechanism"].rpartition("-")[2]}
    if len(kinds) > 1 or draw["cover"]["law"]["kind"] != "laplace":
        raise Wrong("the noise in the optimisation has another law than its name says")
    of_effects = derivation_of(draw) == "calibrate_covariates"
    if draw["cover"]["values"] != (b.fits if of_effects else 1) * (b.items + effects):
        raise Wrong("the cover is of another number of values than are released")
    if b.names > 1:
        raise Wrong("the proof of noise inside an optimisation is of one name of a person")
    covered, stated = cover_loss(draw["cover"], ridge, step), fraction(draw["sensitivity"])
    if of_effects:
        reach, rows = 2 + share * effects, b.copies * b.most_rows()
        curved = NONE if ridge >= scale else rows * log_bounds(1 + reach / (4 * ridge))[1]
        if stated < b.sides * rows * reach:
            raise Wrong(f"the sensitivity of {draw['what']} is {shown(b.sides * rows * reach)}")
        return Loss(b.sides * rows * reach / scale + curved + covered)
    found, kappa1 = gradient(b, loss, draw["public_graph"]), fraction(loss["kappa1"])
    row = log_bounds(1 + 2 * fraction(loss["kappa2"]) / ridge)[1]
    moved = found["l1"] ** 2 if kinds == {"laplace"} else found["l2_squared"]
    if stated**2 * ROUNDED < moved:
        raise Wrong(f"the sensitivity of {draw['what']} is the root of {shown(moved)}")
    if kinds == {"laplace"}:
        free = loss["even_curvature"] and ridge >= kappa1 * scale
        return Loss(found["l1"] / scale + found["within" if free else "rows"] * row + covered)
    epsilon, delta = fraction(draw["cost"]["epsilon"]), fraction(draw["cost"]["delta"])
    grid = draw["cover"]["values"] * (1 + exp_bounds(epsilon)[1]) / 2**80
    left = epsilon - covered - found["rows"] * row
    tail = scale * (left - found["l2_squared"] / (2 * scale**2))  # what b.g / scale may reach
    if not (tail > 0 and tail_is_rare(tail, delta - grid, found, b.items)):
        raise Wrong("the noise inside the optimisation is too small for its epsilon and delta")
    return Loss(epsilon, delta)


def tail_is_rare(tail: Fraction, delta: Fraction, found: Document, items: int) -> bool:
    """Whether b.g exceeds scale times `tail` with probability `delta` at most, by one of three: the
    normal tail of one term, chi square, expected shortfall (which is subadditive [AT02])."""
    term = sqrt_bounds(found["term_squared"])
    alone = term[0] / sqrt_bounds(2 * found["slope"] ** 2)[1]
    stretches = [ONE] if found["directions"] == 1 else [ONE, alone, alone]
    if delta <= 0:
        return False
    if found["terms"] == 1:
        return sum(tail_bounds(tail / term[1] * each)[1] for each in stretches) <= delta
    size = min(found["terms"] * found["directions"], items - 1)
    if chi_square_tail(size, down(tail**2 / found["l2_squared"])) <= delta:
        return True

    def shortfall(t: Fraction) -> Fraction:  # at every point t it is at most t + E(X - t)+ / delta
        beyond = NONE
        for each in stretches:
            z = t * each
            beyond += (density_bounds(z)[1] - z * tail_bounds(z)[0]) / each
        return t + beyond / delta

    low, high = 0.0, 40.0
    for _ in range(200):  # the best point needs no proof: the bound holds at each
        rare = sum(math.erfc((low + high) / 8**0.5 * float(each)) / 2 for each in stretches)
        low, high = ((low + high) / 2, high) if rare > float(delta) else (low, (low + high) / 2)
    return bool(shortfall(Fraction(high)) <= tail / (found["terms"] * term[1]))


def chi_square_tail(size: int, x: Fraction) -> Fraction:
    """Upper bound of P(chi square of `size` degrees of freedom > x): two more add a term."""
    if size % 2:
        root = sqrt_bounds(x)
        found, term = 2 * tail_bounds(root[0])[1], 2 * root[1] * density_bounds(root[0])[1]
    else:
        found = exp_bounds(-x / 2)[1]
        term = found * x / 2
    for degrees in range(1 if size % 2 else 2, size, 2):
        found, term = up(found + term), up(term * x / (degrees + 2))
    return found


def cover_loss(cover: Document, ridge: Fraction, step: Fraction) -> Fraction:
    """Epsilon of the noise that covers what a computer makes of an exact minimiser: by strong
    convexity two are no further apart than their gradients over the ridge."""
    values, root = cover["values"], sqrt_bounds(Fraction(cover["values"]))[1]
    grid = fraction(cover["law"]["step"])
    apart = 2 * root * (fraction(cover["tolerance"]) + root * step) / ridge / grid + values
    if cover["apart"] < math.floor(apart):
        raise Wrong("rounded minimisers can be further apart than the certificate says")
    return Fraction(cover["apart"]) / fraction(cover["law"]["scale"])


WORDS = 2**64
GRID = 1024  # steps of an answer, and of a rank, to which Laplace noise is added
MOST_LISTED = 1000  # numbers of answers of a person whose thresholds a certificate lists
LONGEST = 2**16  # items of a ranking whose weights it lists


def answer_loss(threshold: int, others: int = 1) -> Fraction:
    """Upper bound of the cost of randomised response [W65], `threshold` of 2^64 for each other."""
    kept = WORDS - others * threshold
    if not 1 <= threshold <= kept:
        raise Wrong(f"threshold {threshold} makes a false answer likelier than the true one")
    return log_bounds(Fraction(kept, threshold))[1]


def flipped_loss(draw: Document) -> Loss:
    """Loss of answers that are flipped one by one."""
    most, high, split = draw["most_answers"], NONE, draw["budget"] == "per_user"
    for each in draw["thresholds"]:
        one, stated = answer_loss(each["threshold"]), fraction(each["epsilon"])
        if one > stated:
            raise Wrong(
                f"threshold {each['threshold']} costs {shown(one)}, more than the {shown(stated)}"
                " that is stated for an answer"
            )
        high = max(high, one * (each["answers"] if split else 1))
    listed = {each["answers"] for each in draw["thresholds"]}
    if not listed or (split and listed != set(range(1, min(most or 1, MOST_LISTED) + 1))):
        raise Wrong("the thresholds are not those of 1, 2, ... answers of a person")
    return Loss(high if split else (most or 1) * high)


def smallest_scale(draw: Document, moved: int, what: str) -> Fraction:
    """The smallest scale of Laplace laws, each of which has to suffice for its own epsilon."""
    if draw["grid"] != GRID or any(law["step"] != "1/1" for law in draw["laws"]):
        raise Wrong(f"{what} is counted in {GRID} steps, and the noise is not")
    scales = [fraction(law["scale"]) for law in draw["laws"]]
    for law, scale, epsilon in zip(draw["laws"], scales, draw["epsilons"], strict=True):
        if law["kind"] != "laplace" or moved > scale * fraction(epsilon):
            raise Wrong(f"the noise of {what} is too small for its epsilon")
    return min(scales)


def laplace_answers_loss(draw: Document) -> Loss:
    """Loss of Laplace noise on each answer, which moves `grid` steps."""
    scale = smallest_scale(draw, draw["grid"], "an answer")
    return Loss((draw["most_answers"] or 1) * draw["grid"] / scale)


def mallows_loss(draw: Document) -> Loss:
    """Loss of synthetic rankings, from the integer weights of repeated insertion [DPR]: another
    place of an item changes m - 1 insertions by a step each, another ranking m (m - 1) / 2."""
    m, high = draw["longest"], NONE
    for table in draw["tables"]:
        weights = table["weights"]
        pairs = list(itertools.pairwise(weights))
        if len(weights) != m or min(weights) < 1 or any(a < b for a, b in pairs):
            raise Wrong("the weights of an insertion must fall to 1 at least, one for each place")
        steepest = max((Fraction(a, b) for a, b in set(pairs)), default=ONE)
        step = log_bounds(steepest)[1]
        if (m - 1) * step > fraction(table["epsilon"]):
            raise Wrong("weights of an insertion differ by more than epsilon / (m - 1) allows")
        high = max(high, m * (m - 1) * step / 2)
    if not draw["tables"]:
        raise Wrong("the weights of insertions are missing")
    return Loss(draw["most_rankings"] * high)


def ranks_loss(draw: Document) -> Loss:
    """Loss of Laplace noise on ranks: moving an item moves them by 2 (m - 1) in all, another
    ranking by m^2 / 2."""
    m, grid, moved = draw["longest"], draw["grid"], draw["sensitivity"]["l1"]
    if moved != 2 * (m - 1) * grid:
        raise Wrong("the sensitivity of ranks is 2 (m - 1), in steps of their grid")
    scale = smallest_scale(draw, moved, "a rank")
    return Loss(draw["most_rankings"] * (m * m // 2) * grid / scale)


def random_pairs_loss(draw: Document) -> Loss:
    """Loss of private answers to pairs of a ranking; of levels, the largest."""
    levels, high = draw.get("levels") or [draw], NONE
    for each in levels:
        one = answer_loss(each["threshold"], 1 if draw["hide"] == "order" else 2)
        if each["pairs"] * one > fraction(each["epsilon"]):
            raise Wrong(f"threshold {each['threshold']} costs more than epsilon / pairs")
        high = max(high, each["pairs"] * one)
    if any(draw[name] != levels[-1][name] for name in ("epsilon", "pairs", "threshold")):
        raise Wrong("the largest level of epsilon is not that of the draw")
    return Loss(draw["most_rankings"] * high)


LOCAL: dict[str, Callable[[Document], Loss]] = {
    "randomised-response": flipped_loss,
    "laplace-response": laplace_answers_loss,
    "mallows": mallows_loss,
    "laplace-ranks": ranks_loss,
    "random-pairs": random_pairs_loss,
}


def loss_of(draw: Document, certificate: Document, release: Document) -> Loss:
    """What a draw costs, recomputed."""
    mechanism, bounds = draw["mechanism"], certificate["domain"]["bounds"]
    if mechanism.startswith("objective-perturbation") != (derivation_of(draw) in OPTIMISED):
        raise Wrong(f"{draw['what']}: {short(mechanism)} has another derivation than it says")
    if derivation_of(draw) in OPTIMISED:
        b = bundle_of(certificate)
        check_inputs(draw, inputs_of(draw, certificate, release, b))
        return objective_loss(draw, b, len(release.get("effects") or ()))
    if mechanism not in LOCAL:
        return count_loss(draw, certificate, release)
    counted, most = draw.get("most_rankings", draw.get("most_answers")), bounds["max_contributions"]
    if release["released"]["kind"] == "randomised-answers" and most is not None:
        most = min(most, certificate["domain"]["items"])  # one answer to each item
    if (counted or 1) < (most or 1):
        told = f"{counted} of a person count in the draw, and {most} in bounds"
        raise Wrong(f"{draw['what']}: {told}")
    parameters = release["privacy"]["parameters"]
    longest, answered = parameters.get("longest_ranking", 1), parameters.get("pairs_answered")
    if draw.get("longest", longest) < min(longest, LONGEST):
        raise Wrong(f"the longest ranking has {longest} items, and in the draw {draw['longest']}")
    if draw.get("pairs", answered) != answered:
        raise Wrong(f"{answered} pairs of a ranking are answered, and {draw['pairs']} in the draw")
    return LOCAL[mechanism](draw)


# 6. Composition


def check_draws(certificate: Document, release: Document, say: Findings) -> None:
    """Each draw by itself, then all of them together against the guarantee."""
    guarantee, draws = certificate["guarantee"], certificate["draws"]
    check_paid_for(certificate, release, say)
    if guarantee["epsilon"] == "inf":
        for draw in draws:
            check_inputs(draw, inputs_of(draw, certificate, release, bundle_of(certificate)))
        say.check(not release["safe"], wrong="a release without noise is called safe")
        say.open("epsilon is infinite: no noise was added, and NOBODY IS PROTECTED")
        return
    losses = [loss_of(draw, certificate, release) for draw in draws]
    for draw, loss in zip(draws, losses, strict=True):
        check_cost(draw, loss, say)
    epsilon, delta = exactly(guarantee["epsilon"]), exactly(guarantee["delta"])
    local = guarantee["unit"] == "local"
    say.check(
        covers(epsilon * (ROUNDED if local else 1), delta, losses),
        f"all draws together are ({shown(epsilon, delta)})-DP, epsilon and delta, by fractions",
        f"the draws cost more than epsilon, delta = {shown(epsilon, delta)}",
    )
    parameters = release["privacy"]["parameters"]
    person = parameters.get("epsilon_of_a_person_at_most")
    other = f"release.json says {person} of a person, and the guarantee {shown(epsilon)}"
    say.check(person is None or math.isclose(person, epsilon, rel_tol=1e-9), wrong=other)
    if "epsilon_of_an_answer_after_shuffling" in parameters:
        say.open("the smaller epsilon of an answer after shuffling: its bound takes long sums")
    if guarantee["rho"] is not None:
        rho = sum((Fraction(a) / (2 * b) for each in losses for a, b in each.gaussian), NONE)
        say.check(
            0 < rho <= exactly(guarantee["rho"]),
            f"the noise gives zCDP with rho {shown(rho)}",
            f"the noise gives rho {shown(rho)}, more than {shown(exactly(guarantee['rho']))}",
        )


def check_cost(draw: Document, loss: Loss, say: Findings) -> None:
    """That a draw costs what the certificate says, or less."""
    cost, name = draw["cost"], f"{draw['what']} ({draw['mechanism']})"
    epsilon = exactly(cost["epsilon"]) * (ROUNDED if draw["mechanism"] in LOCAL else 1)
    found, most, unit = loss.epsilon, epsilon, "epsilon"
    if loss.gaussian:
        (change, variance), unit = loss.gaussian[0], "rho"
        found, most = change / (2 * variance), exactly(cost["rho"])
    say.check(
        found <= most and loss.delta <= exactly(cost["delta"]),
        f"{name}: {unit} {shown(found)}, at most {shown(most)}",
        f"{name}: the noise costs {unit} {shown(found)}, more than {shown(most)}: it is too small",
    )


def covers(epsilon: Fraction, delta: Fraction, losses: Sequence[Loss]) -> bool:
    """Whether the losses are together (epsilon, delta)-DP: pure ones add up, Gaussian ones compose
    as one [DRS22]."""
    left = epsilon - sum((each.epsilon for each in losses), NONE)
    left_delta = delta - sum((each.delta for each in losses), NONE)
    gaussian = [change for each in losses for change in each.gaussian]
    if left < 0 or left_delta < 0:
        return False
    return not gaussian or gaussian_delta(gaussian, left) <= left_delta


def gaussian_delta(draws: Iterable[tuple[int, Fraction]], epsilon: Fraction) -> Fraction:
    """Upper bound of the delta of discrete Gaussian draws, each (squared l2 change, variance).

    The smaller of two bounds. Renyi divergence ([CKS20], Proposition 12):

        delta <= e^((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1)          for every a > 1

    And a Gaussian of variance s^2 = sigma^2 - r^2 ([BW18] Theorem 8 with the theorem of hushrank's
    privacy/gaussian_profile.py), which holds for every r^2 below sigma^2 / 2:

        delta <= e^S (P(z > x - m/2) - e^(epsilon - S) P(z > x + m/2)),    x = (epsilon - S) / m
    """
    draws = list(draws)
    rho = sum((change / (2 * variance) for change, variance in draws), NONE)
    if rho == 0:
        return NONE if epsilon >= 0 else ONE
    shifts = [_shift(change, variance) for change, variance in draws]
    found = [ONE, _renyi_delta(rho, epsilon)]
    if all(shifts):
        squared, slack = (sum(each, NONE) for each in zip(*filter(None, shifts), strict=True))
        found.append(_profile_delta(sqrt_bounds(squared)[1], slack, epsilon))
    return max(NONE, min(found))


def _renyi_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """By Renyi divergence, at the best of some orders."""
    r, e = float(rho), float(epsilon)

    def guess(a: float) -> float:
        return (a - 1) * (a * r - e) + a * math.log1p(-1 / a) - math.log(a - 1)

    low, high = 1 + 1e-9, 4 * max(1 + 1e-9, (e / r + 1) / 2) + 4
    for _ in range(200):  # which order is best needs no proof: the bound holds for all
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if guess(left) < guess(right) else (left, high)
    a = Fraction(low).limit_denominator(10**9)
    if a <= 1:
        return ONE
    exponent = (a - 1) * (a * rho - epsilon) + a * log_bounds(1 - 1 / a)[1] - log_bounds(a - 1)[0]
    return min(ONE, exp_bounds(exponent)[1]) if exponent < 0 else ONE


@functools.lru_cache(1024)
def _shift(change: int, variance: Fraction) -> Bounds | None:
    """D^2 / s^2 and S of the theorem, from above; None where it says nothing."""
    rho = change / (2 * variance)
    logs = math.log(math.e**2 + 4 / (1e-3 * float(rho))) + 2 * math.log(change)
    smoothing = Fraction(logs / (4 * math.pi**2))  # r^2: any choice is proved
    if not smoothing < variance / 2:
        return None
    decay = exp_bounds(-2 * PI[0] ** 2 * smoothing)[1]
    ripple = 2 * decay / (1 - decay**3)
    apart = up(exp_bounds(-2 * PI[0] ** 2 * smoothing * (1 - smoothing / variance))[1] * ripple)
    apart = up(apart / (1 - ripple))
    if not (0 < ripple < 1 and 0 < apart < 1):
        return None
    return up(change / (variance - smoothing)), change * log_bounds((1 + apart) / (1 - apart))[1]


def _profile_delta(m: Fraction, slack: Fraction, epsilon: Fraction) -> Fraction:
    """By the Gaussian that is as hard on privacy: it grows with m and with the slack."""
    m, left = up(m), down(epsilon - slack)
    first, second = tail_bounds(left / m - m / 2)[1], tail_bounds(left / m + m / 2)[0]
    return up(exp_bounds(slack)[1] * (first - exp_bounds(left)[0] * second))


Spend = tuple[Fraction, Fraction, Fraction | None, int]  # epsilon, delta, rho, squared l2
FREE: Spend = (NONE, NONE, None, 1)
Costs = tuple[tuple[Fraction, int, Fraction], ...]  # pure: cost, how often, largest loss of these


def spend_of(fields: Document) -> Spend:
    """A cost, as the ledger or the certificate writes it: its decimals end, as those of a float do,
    so that many costs have a sum that can be written."""
    found = [exactly(fields[part] or 0) for part in ("epsilon", "delta", "rho")]
    if any(10**1100 % part.denominator for part in found):
        raise Wrong("the decimals of a cost do not end")
    return found[0], found[1], None if fields["rho"] is None else found[2], fields["l2_squared"]


def losses_of(spends: Iterable[Spend]) -> list[Loss]:
    """The same as losses: rho is that of a Gaussian of variance l2^2 / (2 rho)."""
    return [
        Loss(epsilon, delta, ((l2, Fraction(l2) / (2 * rho)),) if rho else ())
        for epsilon, delta, rho, l2 in spends
    ]


def composed(epsilon: Fraction, delta: Fraction, spends: Sequence[Spend]) -> bool:
    """Whether these costs, none of them Gaussian, are together (epsilon, delta)-DP by the optimal
    composition theorem [KOV15]: each is randomised response at its epsilon, but for its delta.

    Losses are told on a grid, which only adds to delta (`law_of`). Where costs have few decimals,
    all losses lie on it. Else two grids are tried: a wide one, from the sum of the costs down, and
    a finer one, from 0: hushrank's accountant moves every loss up to the next place of that one."""
    if any(each[2] for each in spends) or not delta:  # without a delta no less than the sum holds
        return False
    kept, counts = ONE, sorted(Counter(each[0] for each in spends).items())
    for each in spends:
        kept = down(kept * max(NONE, 1 - each[1]))
    exact = tuple((cost, often, cost * often) for cost, often in counts)
    whole, unit = sum(top for *_, top in exact), 10 ** (20 + len(str(int(1 / delta))))
    steps, grid = min(150_001, 5 * 10**6 // len(str(unit))), Fraction(1, 10**4 * 2**60)
    while whole > steps * grid:
        grid *= 2
    above = tuple((cost, often, math.ceil(top / grid) * grid) for cost, often, top in exact)
    wide = (each for each in (Fraction(2, 10**digits) for digits in range(5)) if each > grid)
    fit = next((each for each in wide if not any(2 * cost % each for cost, _ in counts)), None)
    grids = [(exact, fit)] if fit else [(exact, 4 * grid), (above, grid)]
    lost = (chance_beyond(epsilon, costs, step, unit) for costs, step in grids)
    return any(1 - kept * (1 - each) <= delta for each in lost)


@functools.lru_cache(8)  # the total of a period is often that of all periods
def chance_beyond(epsilon: Fraction, costs: Costs, grid: Fraction, unit: int) -> Fraction:
    """Upper bound of E max(0, 1 - e^(epsilon - loss)), the least delta of pure costs together."""
    top = sum((each for *_, each in costs), NONE)
    if top <= epsilon:
        return NONE
    size = math.floor((top - epsilon) / grid) + 1  # lower losses are within epsilon
    laws = [law_of(*each, grid, size, unit) for each in costs]
    while len(laws) > 1:
        pairs = itertools.zip_longest(laws[::2], laws[1::2], fillvalue=[unit])
        laws = [law_of_both(one, other, unit)[:size] for one, other in pairs]
    ratio, rise = (decimals(exp_bounds(x)[0])[0] for x in (epsilon - top, grid))
    found = Decimal(0)
    for chance in itertools.chain(*laws):  # and its ratio, e^(epsilon - loss), from below
        found = CEILING.add(found, CEILING.multiply(chance, CEILING.subtract(1, ratio)))
        ratio = FLOOR.multiply(ratio, rise)
    return Fraction(found) / unit


def law_of(
    cost: Fraction, often: int, top: Fraction, grid: Fraction, size: int, unit: int
) -> list[int]:
    """Chances, over `unit` and rounded up, of the losses `top`, `top` - grid, ... of equal costs.

    The loss is (often - 2 lies) cost. Where that is between two of these, H and H - grid, its
    outcome of chance p is told as two, of chances p - q and q. With q = p (e^(H - loss) - 1) /
    (e^grid - 1) the neighbour's chances, e^-loss times these, add up to what they were: who forgets
    which of the two it was has the old outcome, so what holds for the new law holds for the old. A
    smaller q, such as p (H - loss) / (e^grid - 1), moves chance to the larger loss, and delta =
    E max(0, 1 - e^(epsilon - loss)) grows with losses and chances."""
    truth, fall = log_bounds(1 + exp_bounds(-cost)[0])[0], decimals(exp_bounds(-cost)[1])[1]
    chance, cells = decimals(exp_bounds(-often * truth)[1])[1], cost / grid
    first, part = top / grid - often * cells, down(grid / (exp_bounds(grid)[1] - 1))
    law = [0] * (min(size, math.ceil(first + 2 * often * cells) + 1) + 1)
    for lies in range(often + 1):
        place, below = divmod(first + 2 * lies * cells, 1)
        if place >= size:
            break
        found = math.ceil(CEILING.multiply(chance, unit))
        moved = math.floor(found * below * part)
        law[place] += found - moved
        law[place + 1] += moved
        ways = CEILING.multiply(chance, CEILING.multiply(fall, often - lies))
        chance = CEILING.divide(ways, lies + 1)
    return law[:size]


def law_of_both(one: list[int], other: list[int], unit: int) -> list[int]:
    """The law of the sum of two losses. Each list is a number whose digits are chances, too wide
    for a sum of products to reach the next: numbers multiply as laws do. A few go one by one."""
    width, both = 2 * len(str(unit)), [0] * (len(one) + len(other) - 1)
    above = [[(at, each) for at, each in enumerate(law) if each] for law in (one, other)]
    if math.prod(map(len, above)) <= 4 * len(both):  # that is faster
        for (at, each), (further, chance) in itertools.product(*above):
            both[at + further] += each * chance
        return [-(-each // unit) for each in both]
    a, b = (Decimal("".join(f"{each:0{width}d}" for each in law)) for law in (one, other))
    text = f"{EXACT.multiply(a, b):f}".zfill(width * len(both))
    return [-(-int(text[at : at + width]) // unit) for at in range(0, len(text), width)]


# Totals that hold although each cost is chosen in view of earlier results: who goes on only while
# the costs are within one of these filters is (epsilon, delta)-DP, for an event splits by the first
# filter that it is within, and their shares of delta add up. The first cost, set aside before
# anything was seen, selects them (hushrank's privacy/filters.py has the proofs).
MAIN_SHARE, SUM_SHARE, RENYI_SHARE = Fraction(63, 64), Fraction(1, 128), Fraction(1, 1024)
RENYI_ORDERS = [Fraction(3, 2), *(Fraction(1 + 2**k) for k in range(7))]
SLACK_PER_CHARGE = Fraction(1, 1000)


def allowed(
    rule: str, epsilon: Fraction, delta: Fraction, first: Spend, costs: list[Spend]
) -> bool:
    """Whether a limit of (epsilon, delta) allows these costs by a filter of the first cost."""
    lost, gaussian = sum((each[1] for each in costs), NONE), [each for each in costs if each[2]]
    if rule == "sum" or not costs:
        within = lost <= delta * (1 if first[1] else SUM_SHARE)
        return within and not gaussian and sum((each[0] for each in costs), NONE) <= epsilon
    if rule == "one":  # if no filter has it, nothing can be added, and it stands alone
        return len(costs) == len(gaussian) == 1 and covers(epsilon, delta, losses_of(costs))
    if first[1] or not delta or lost > SUM_SHARE * delta:
        return False
    if rule == "renyi":
        return any(renyi_total(costs, a, RENYI_SHARE * delta) <= epsilon for a in RENYI_ORDERS)
    if rule == "gaussian" and first[2] and gaussian == costs:  # [ST22], by squared shift or slack
        shifts = [_shift(each[3], Fraction(each[3]) / (2 * (each[2] or ONE))) for each in costs]
        charges = [max(each[0], each[1] / SLACK_PER_CHARGE) for each in shifts if each]
        m, slack = sqrt_bounds(sum(charges, NONE))[1], SLACK_PER_CHARGE * sum(charges, NONE)
        return all(shifts) and _profile_delta(m, slack, epsilon) <= MAIN_SHARE * delta
    equal = rule == "equal-costs" and first[2] is None and not gaussian and not lost
    below = equal and all(each[0] <= first[0] for each in costs)
    return below and composed(epsilon, MAIN_SHARE * delta, [first] * len(costs))


def renyi_total(costs: list[Spend], a: Fraction, share: Fraction) -> Fraction:
    """Epsilon at a share of delta, from above, by the Renyi divergence at order a: a rho of
    Gaussian costs [BS16], of others that of randomised response; [CKS20] Proposition 12."""
    found = log_bounds(1 - 1 / a)[1] - log_bounds(a * share)[0] / (a - 1)
    for (epsilon, _, rho, _), often in Counter(costs).items():
        if rho or a * epsilon > LARGEST:
            found += often * (a * rho if rho else epsilon)
            continue
        ratio = exp_bounds(a * epsilon)[1] + exp_bounds((1 - a) * epsilon)[1]
        ratio = max(ONE, up(ratio / (1 + exp_bounds(epsilon)[0])))
        found += often * min(epsilon, log_bounds(ratio)[1] / (a - 1))
    return max(NONE, found)


def check_rule(
    name: str, rule: str, limit: Bounds, first: Spend, costs: list[Spend], say: Findings
) -> None:
    """That a limit, epsilon and delta, allows costs by a rule for adaptive choice."""
    say.check(
        allowed(rule, *limit, first, costs),
        f"{name} is together ({shown(*limit)})-DP, although each cost may have been chosen in view"
        f" of earlier results (rule {rule})",
        f"{name} costs more than the stated total of epsilon {shown(limit[0])}, rule {short(rule)}",
    )


def check_total(
    name: str, total: Document, spends: list[Spend] | None, say: Findings, began: Spend = FREE
) -> None:
    """That a total names these costs (None: no ledger is at hand), of which `began` was set aside
    first, and that its epsilon and delta cover them."""
    if sum(each["times"] for each in total["spends"]) > 10**5:
        raise Wrong(f"{name} has more costs than anybody adds up")
    stated = [spend_of(each) for each in total["spends"] for _ in range(each["times"])]
    say.check(
        spends is None or Counter(stated) == Counter(spends),
        f"the total of {name} counts the {len(stated)} costs that the ledger has" if spends else "",
        f"the total of {name} counts other costs than the ledger has",
    )
    costs = [(each[0], each[1], each[2] or NONE) for each in stated]
    added = [sum((each[part] for each in costs), NONE) for part in range(3)]
    if total["epsilon"] == "inf":
        return
    said = [exactly(total["sum"][part] or 0) for part in ("epsilon", "delta", "rho")]
    say.check(
        added == said,
        f"the costs of {name} add up to what is stated",
        f"the costs of {name} add up to {shown(*added)}, and the certificate says {shown(*said)}",
    )
    epsilon, delta = exactly(total["epsilon"]), exactly(total["delta"])
    if total.get("rule"):
        other = f"the total of {name} names another first cost than the ledger has"
        first = spend_of(total["first"]) if total.get("first") else FREE
        say.check(spends is None or first == began, wrong=other)
        check_rule(name, total["rule"], (epsilon, delta), first, stated, say)
        return
    held, how = covers(epsilon, delta, losses_of(stated)), ""
    if not held:
        held, how = composed(epsilon, delta, stated), ", composed optimally and rounded up"
    mixed = any(each[2] for each in stated) and any(each[0] for each in stated)
    if not held and mixed and epsilon >= max((each[0] for each in stated), default=NONE):
        say.open(f"the total of {name}: pure and Gaussian costs were composed by Renyi divergence")
        return
    say.check(
        held,
        f"{name} is together ({shown(epsilon, delta)})-DP{how}",
        f"{name} costs more than the stated total of epsilon {shown(epsilon)}",
    )
    plain = not added[2] and added[1] <= delta
    above = f"the stated total of {name} is above the sum of its costs"
    say.check(not plain or epsilon <= added[0] * ROUNDED, wrong=above)


# 7. The ledger


EVENTS = {
    *("open", "terms", "reserve", "draw", "stop", "commit", "cancel", "unsafe", "alert", "accept"),
    "access",
}
STEPS = {  # an attempt's states before an event, and its state after it
    "names": ({"reserved"}, "found"),  # a draw of names of items; that of their ranking follows
    "draw": ({"reserved", "running", "found"}, "drawn"),
    "stop": ({"reserved"}, "stopped"),
    "commit": ({"drawn"}, "committed"),
    "cancel": ({"reserved"}, "cancelled"),
}


def read_ledger(content: bytes) -> list[Document]:
    """The entries, whose hashes form a chain: each line names the hash of the line above."""
    entries, previous = [], "0" * 64
    for place, line in enumerate(content.removesuffix(b"\n").split(b"\n"), start=1):
        body, _, ending = line.rpartition(b',"hash":"')
        digest = hashlib.sha256(body + b"}").hexdigest()
        if ending != digest.encode() + b'"}':
            raise Wrong(f"line {place} of the ledger was changed: its hash does not match")
        entry = read_json(line)
        if (entry["seq"], entry["previous"]) != (place, previous):
            raise Wrong(
                f"line {place} of the ledger does not follow the line above it: a line was removed,"
                " added or moved"
            )
        if entry["hushrank_ledger"] != 1 or entry["event"] not in EVENTS:
            raise Wrong(f"line {place} of the ledger is of a kind that this program does not know")
        entries.append(entry)
        previous = digest
    return entries


def attempts_of(entries: Iterable[Document], population: str) -> list[Document]:
    """What became of every reservation of a population: its entry with `state`, `drawn` (when),
    `gone` (nights of a stream), `set_aside` (its cost at first), `seen` (when it was cancelled, if
    noise was drawn meanwhile) and `was_found` (True if names of items were drawn first).

    Raises:
        Wrong: an entry cannot follow those before it: noise was drawn twice, or without a
            reservation, or a night of a stream out of turn.
    """
    found: list[Document] = []
    last: dict[str, Document] = {}
    last_draw = 0
    for entry in entries:
        time = datetime.fromisoformat(entry["time"])
        if entry["event"] in ("draw", "stop"):
            last_draw = entry["seq"]
        if entry["event"] == "accept" and entry["clock"]:
            for each in found:
                for when in ("drawn", "seen"):
                    each[when] = each[when] and min(each[when], time)
        if entry["population"] != population or "attempt" not in entry:
            continue
        name, event = entry["release_id"], entry["event"]
        own = last.get(name)
        wrong = f"line {entry['seq']} of the ledger ({event}) cannot follow the lines above it"
        if event != "reserve":
            before, after = STEPS["names" if entry.get("names") else event]
            if own is None or own["state"] not in before or entry["attempt"] != own["attempt"]:
                raise Wrong(wrong)
            own |= {"state": after, f"was_{after}": True}
            if after == "cancelled" and last_draw > own["seq"]:
                own["seen"] = time
            if after == "found" and (own.get("stream") or own.get("of")):
                raise Wrong(wrong)
            if after in ("found", "drawn", "stopped"):
                own |= {"drawn": time, "spend": entry.get("spend", own["spend"])}
            if after == "drawn" and own.get("stream"):
                own["state"] = "ended"
            if after == "drawn" and own.get("of") and not draw_of_night(last[own["of"]], own):
                raise Wrong(wrong)
            continue
        busy = own is not None and own["state"] in ("reserved", "running", "ended")
        if busy or entry["attempt"] != (1 if own is None else own["attempt"] + 1):
            raise Wrong(wrong)
        if entry.get("of") and spend_of(entry["spend"]) != FREE:
            raise Wrong(f"line {entry['seq']} of the ledger charges a night that its stream pays")
        more = {"state": "reserved", "drawn": None, "gone": 0, "seen": None}
        last[name] = {**entry, **more, "set_aside": entry["spend"]}
        found.append(last[name])
    return found


def draw_of_night(pays: Document, own: Document) -> bool:
    """Move a stream on by a night; False: that night is not its next."""
    nights, first = pays["stream"]["nights"], date.fromisoformat(pays["stream"]["first"])
    if own["night"] != str(first + timedelta(days=pays["gone"])) or pays["gone"] == nights:
        return False
    pays |= {"gone": pays["gone"] + 1, "drawn": own["drawn"]}
    pays["state"] = "ended" if pays["gone"] == nights else "running"
    return True


def counted_in(attempts: list[Document], start: datetime | None) -> list[Spend]:
    """Costs of attempts that count from `start` on; None: of all. Nights count in their stream."""
    spends = [spend_of(each["spend"]) for each in attempts if counts_from(each, start)]
    return [each for each in spends if each != FREE]


def counts_from(attempt: Document, start: datetime | None) -> bool:
    """Whether an attempt counts from `start` on."""
    if attempt.get("of") or attempt["state"] == "cancelled":
        return False
    always = attempt["state"] == "running" or not (attempt["drawn"] and start)
    return always or attempt["drawn"] >= start


def first_in(attempts: list[Document], start: datetime | None) -> Spend:
    """The cost that was set aside first of those that count from `start` on; so does one that was
    cancelled after noise was drawn: else a result could select the rule of a total."""
    for each in attempts:
        cost, seen = spend_of(each["set_aside"]), each["seen"]
        if cost != FREE and (counts_from(each, start) or (seen and not (start and seen < start))):
            return cost
    return FREE


def period_of(time: datetime, refresh: str | None) -> tuple[datetime | None, datetime | None]:
    """Start and end of the day, week, month or year of `time`, UTC; no limits without `refresh`."""
    if refresh is None:
        return None, None
    day = time.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start, days = {
        "daily": (day, 1),
        "weekly": (day - timedelta(days=day.weekday()), 7),
        "monthly": (day.replace(day=1), 31),
        "yearly": (day.replace(month=1, day=1), 366),
    }[refresh]
    end = start + timedelta(days=days)
    return start, end.replace(day=1) if days > 7 else end


def check_ledger(
    certificate: Document, content: Given, say: Findings, officer: Given = None
) -> None:
    """That the ledger has the release once, where the certificate says, and has its totals, and
    that the holder of a key (`officer`, PEM) set its terms, if they belong to one."""
    part, guarantee = certificate["ledger"], certificate["guarantee"]
    if part is None:
        unsafe = "the release is called safe, and the certificate names no line of a ledger"
        say.check(not certificate["release"]["safe"], wrong=unsafe)
        say.open("no ledger counts this release: what it reveals with others is not known")
        return
    same = (part["unit"], part["adjacency"]) == (guarantee["unit"], guarantee["adjacency"])
    say.check(
        same, wrong="the ledger counts by another adjacency or unit than the release protects"
    )
    limit, totals = part["budget"], (part["period"], part["lifetime"])
    say.check(
        part["period"]["epsilon"] != "inf"
        and exactly(part["period"]["epsilon"]) <= exactly(limit["epsilon"])
        and all(exactly(each["delta"]) == exactly(limit["delta"]) for each in totals),
        "the total of the period is within its budget",
        "the total of the period is above the budget of the period, or at another delta",
    )
    most, ever = limit.get("lifetime_epsilon"), part["lifetime"]["epsilon"]
    say.check(
        most is None or (ever != "inf" and exactly(ever) <= exactly(most)),
        "the total of all periods is within lifetime_epsilon" if most else "",
        "the total of all periods is above lifetime_epsilon",
    )
    if content is None:
        check_total("the period", part["period"], None, say)
        check_total("all periods", part["lifetime"], None, say)
        check_together(part, None, say)
        say_terms(part.get("terms") or [], say)
        if officer is not None:
            say.open("who set the terms: no ledger was given, so no approval was looked at")
        say.open("the ledger: no file was given (--ledger FILE), so its lines were not looked at")
        return
    entries = read_ledger(content)
    say.check(True, f"the hashes of all {len(entries)} lines of the ledger form a chain")
    if reserved_there(entries, certificate, say):
        check_paid(entries, certificate, say)
        check_terms(entries[: part["entry"]["line"]], part, say)
        check_approvals(content, entries, part, say, officer)
        check_counted(entries, part, say)
        check_drawn(entries, certificate, say)


def reserved_there(entries: list[Document], certificate: Document, say: Findings) -> bool:
    """Whether the line that the certificate names reserved the release."""
    part, told = certificate["ledger"], certificate["release"]
    line = part["entry"]["line"]
    if line > len(entries):
        why = "an older copy was put back, or lines were removed"
        text = f"the ledger has {len(entries)} lines, and this release is line {line}: {why}"
        return say.check(False, wrong=text)
    entry, named = entries[line - 1], part["entry"]
    claimed = {"event": "reserve", "release_id": told["release_id"], "config_hash": told["job"]}
    claimed |= {"hash": named["hash"], "previous": named["previous"], "night": told["night"]}
    claimed |= {"attempt": part["attempt"], "population": part["population"]}
    return say.check(
        all(entry.get(name) == value for name, value in claimed.items())
        and told["population"] == part["population"]
        and moment(entry["time"]) == moment(named["time"]),
        f"line {line} of the ledger reserved this release, and has the hash of the certificate",
        f"line {line} of the ledger is not the reservation of this release that the certificate"
        " names: lines were changed, or the certificate is of another ledger",
    )


def check_paid(entries: list[Document], certificate: Document, say: Findings) -> None:
    """That the line that pays for the release is the one that is named, and charges its cost."""
    part, terms = certificate["ledger"], certificate["domain"]["stream"]
    guarantee = certificate["guarantee"]
    paying, own = (entries[part[name]["line"] - 1] for name in ("paid_by", "entry"))
    good = paying["hash"] == part["paid_by"]["hash"]
    if terms is None:
        good = good and paying is own and not own.get("of")
    else:
        good = good and paying["release_id"] == own.get("of") == terms["stream"]
        good = good and paying["stream"]["nights"] == terms["nights"]
    say.check(
        good,
        "the line that pays for it is the one that the certificate names",
        "the line of the ledger that pays for this release is another one than is named",
    )
    charged = spend_of(guarantee["charged"])
    told = exactly(guarantee["epsilon"]), exactly(guarantee["delta"])
    enough = charged[:2] == told if charged[2] is None else charged[2] == budget(guarantee["rho"])
    say.check(
        enough and spend_of(paying["spend"]) == charged,
        "the ledger was charged with what the release costs",
        "the ledger was charged with another cost than the release has",
    )


def check_terms(before: list[Document], part: Document, say: Findings) -> None:
    """That budget and period are those that the ledger had when the release was reserved."""
    own = [entry for entry in before if entry["population"] == part["population"]]
    own = [entry for entry in own if entry["event"] != "access"]
    terms = [entry for entry in own if entry["event"] in ("open", "terms")][-1]
    limits = ("epsilon", "delta", "lifetime_epsilon")
    told, stated = (
        (*(budget(each.get(name)) for name in limits), each["refresh"])
        for each in (terms, part["budget"])
    )
    say.check(told == stated, "the budget is the ledger's", "the ledger had another budget")
    names = ["unit", "adjacency", *(["protects"] if own[0].get("protects") else ())]
    say.check(
        [entry["event"] for entry in own].count("open") == 1
        and [own[0].get(name) for name in names] == [part[name] for name in names],
        wrong="the ledger counts this population by another unit or adjacency",
    )
    period = period_of(datetime.fromisoformat(before[-1]["time"]), terms["refresh"])
    other = "the period of the release is another one than the certificate says"
    say.check(period == (moment(part["period_start"]), moment(part["period_end"])), wrong=other)


def say_terms(changes: list[Document], say: Findings) -> None:
    """Who set the total of the budget, and each change of it."""
    lines = [each["line"] for each in changes]
    say.check(lines == sorted({*lines}), wrong="the changes of the terms are not in their order")
    for before, each in zip([None, *changes], changes, strict=False):
        limits = each["budget"]
        now = f"epsilon {shown(fraction(limits['epsilon']))}"
        then = "" if before is None else shown(fraction(before["budget"]["epsilon"]))
        done = f"was set from epsilon {then} to {now}" if then else f"was opened at {now}"
        key = each["approved_by"]
        approved = f", approved with key {key}" if key else ", approved by no key"
        why = f": {short(each['reason'])}" if each["reason"] else ""
        say.check(True, f"the budget {done} on {each['time'][:10]}, by {each['by']}{approved}{why}")


def check_approvals(
    content: bytes, entries: list[Document], part: Document, say: Findings, pem: Given
) -> None:
    """That the holder of the key to which the terms belong signed each change and each repair, and
    that the certificate names the changes. `pem`: keys of officers, as the reader knows them."""
    owner, found = b"", []
    for entry, line in zip(entries, content.splitlines(), strict=True):
        if entry["event"] not in ("open", "terms", "accept"):
            continue
        named = base64.b64decode(entry.get("terms_key", ""), validate=True)
        judge = owner or named
        name = hashlib.sha256(judge).hexdigest()[:16] if judge else None
        if judge and not is_approved(line, judge):
            where = f"line {entry['seq']} of the ledger changes its terms or repairs it"
            raise Wrong(f"{where} without a signature of key {name}, to which the terms belong")
        owner = named or owner
        own = entry["population"] == part["population"] and entry["event"] != "accept"
        if own and entry["seq"] <= part["entry"]["line"]:
            made = {"line": entry["seq"], "time": entry["time"], "by": entry["operator"]}
            why = entry.get("reason", "")
            found.append(made | {"budget": entry, "reason": why, "approved_by": name})
    told = part.get("terms")
    if told is None and any(each["approved_by"] for each in found):
        told = []  # only certificates of versions without approvals leave them out
    if told is not None:
        good = [*map(exact_terms, found)] == [*map(exact_terms, told)]
        say.check(good, wrong="the ledger has other changes of its terms than are named")
        say_terms(told, say)
    if pem is not None:
        known, last = keys_of(pem), found[-1]["approved_by"]
        text = f"the budget was set by the holder of key {last}, as given with --terms-key"
        how = f"with key {last}" if last else "without a key"
        say.check(
            last in known, text, f"the budget was set {how}, not by a holder given with --terms-key"
        )


def exact_terms(each: Document) -> tuple[Any, ...]:
    """What a change of terms says, whoever wrote it down."""
    limits = (budget(each["budget"].get(name)) for name in ("epsilon", "delta", "lifetime_epsilon"))
    by = (each["by"], each["reason"], each["approved_by"])
    return each["line"], moment(each["time"]), *by, *limits, each["budget"]["refresh"]


def is_approved(line: bytes, key: bytes) -> bool:
    """Whether a key signed a line of the ledger by its field `approval`."""
    body = line.rpartition(b',"hash":"')[0] + b"}"
    sealed = SIGNED.fullmatch(body)
    found = APPROVED.fullmatch(body if sealed is None else sealed[1] + b"}")
    name = hashlib.sha256(key).hexdigest()[:16].encode()
    if found is None or found[2] != name:
        return False
    return signed_by(key, found[1] + b"}", base64.b64decode(found[3]))


def check_counted(entries: list[Document], part: Document, say: Findings) -> None:
    """The totals up to the release, and those of other populations that had read its input."""
    before, start = entries[: part["entry"]["line"]], moment(part["period_start"])
    held = attempts_of(before, part["population"])
    for name, total, since in (("the period", "period", start), ("all periods", "lifetime", None)):
        check_total(name, part[total], counted_in(held, since), say, first_in(held, since))
    read = {name for each in held if each["state"] != "cancelled" for name in each["inputs"]}
    others = {entry["population"] for entry in before if entry.get("inputs")} - {part["population"]}
    sharing = {}
    for name in others:
        found = attempts_of(before, name)
        if any(read & {*each["inputs"]} for each in found if each["state"] != "cancelled"):
            sharing[name] = found
    stated = {each["population"]: each for each in part["same_input"]}
    say.check(
        {*stated} == {*sharing},
        wrong=f"{len(sharing)} other populations had read the same input, and the certificate"
        f" names {len(stated)}",
    )
    for name in stated.keys() & sharing.keys():
        for when, total in ((start, stated[name]["period"]), (None, stated[name]["lifetime"])):
            if total is not None:
                found = sharing[name]
                check_total(name, total, counted_in(found, when), say, first_in(found, when))
    check_together(part, {part["population"]: held, **sharing}, say)


def check_together(part: Document, held: dict[str, list[Document]] | None, say: Findings) -> None:
    """What all who had read the input cost together, and who stated that their people are others,
    which nobody can check. `held`: attempts by population; None: no ledger is at hand."""
    others, together = part["same_input"], part.get("together")
    costs = [each["lifetime"] for each in (part, *others) if each["lifetime"]]
    if together:
        check_total("all who had read the input", together, None, say)
        counts = Counter[Spend]()
        for each in (spends for total in costs for spends in total["spends"]):
            counts[spend_of(each)] += each["times"]
        same = counts == {spend_of(each): each["times"] for each in together["spends"]}
        same = same and exactly(together["delta"]) == exactly(part["budget"]["delta"])
        say.check(same, wrong="the total of all who had read the input is not that of their totals")
        costs = [together]
    lost = "more than any epsilon"
    if all(each["epsilon"] != "inf" for each in costs):
        both = (sum((exactly(each[k]) for each in costs), NONE) for k in ("epsilon", "delta"))
        lost = "epsilon {} at delta {}".format(*map(shown, both))
    for each in others:
        name, made = each["population"], (each.get("stated_by"), moment(each.get("stated_at")))
        if held and name in held:
            lines = statements(part["population"], name, held)
            line = min(lines, key=lambda line: line["seq"], default={})
            found = line.get("operator"), moment(line.get("time"))
            same = bool(line) == each["stated_other_people"]
            same = same and ("stated_by" not in each or made == found)
            wrong = f"the ledger has another statement that the people of {name} are others"
            made = found if say.check(same, wrong=wrong) else made
        if each["stated_other_people"]:
            by = f"{made[0]} stated on {made[1]:%Y-%m-%d}" if all(made) else "the operator stated"
            text = f"{by} that the people of {name} are others than those of {part['population']}"
            say.open(f"{text}; if that is false, they have lost {lost} together")


def statements(own: str, other: str, held: dict[str, list[Document]]) -> list[Document]:
    """The lines of each population that name the other one, if its last line does so too."""
    found = []
    for one, named in ((own, other), (other, own)):
        lines = [each for each in held[one] if each["state"] != "cancelled"]
        naming = [each for each in lines if named in each.get("others", ())]
        found += naming if naming and naming[-1] is lines[-1] else []
    return found


def check_drawn(entries: list[Document], certificate: Document, say: Findings) -> None:
    """That the release was drawn later, once, at the time that it states."""
    part, created = certificate["ledger"], moment(certificate["release"]["created"])
    line, hour = part["entry"]["line"], timedelta(hours=1)
    found = [e for e in attempts_of(entries, part["population"]) if e["seq"] == line]
    drawn = [each["state"] in ("drawn", "committed") for each in found] == [True]
    say.check(
        drawn,
        "the ledger records that this release was drawn, once",
        "the ledger does not record that this release was drawn: it is an older copy, or lines are"
        " missing",
    )
    if drawn and created:
        reserved, then = datetime.fromisoformat(found[0]["time"]), found[0]["drawn"]
        later = f"created is {created}, and by the ledger the release was drawn until {then}"
        say.check(reserved - hour <= created <= then + hour, wrong=later)
    if drawn and certificate["guarantee"]["epsilon"] != "inf":
        named = any(derivation_of(each) == OF_NAMES for each in certificate["draws"])
        both = found[0].get("was_found", False) == named
        say.check(both, wrong="ledger and certificate differ on names of items drawn first")


SIGNED = re.compile(rb'(?s)(.*),"signature":"ed25519:([0-9a-f]{16}):([A-Za-z0-9+/]{86}==)"\}')
APPROVED = re.compile(rb'(?s)(.*),"approval":"ed25519:([0-9a-f]{16}):([A-Za-z0-9+/]{86}==)"\}')
PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----\s+([A-Za-z0-9+/=\s]+?)\s+-----END PUBLIC KEY-----")
ED25519 = bytes.fromhex("302a300506032b6570032100")  # how the DER of such a key begins (RFC 8410)
UNSIGNED = "nobody signed this: whoever can write the files and the ledger could have made all anew"


def keys_of(pem: bytes) -> dict[str, bytes]:
    """The Ed25519 keys in a file, 32 bytes each, by their names: digits of their SHA-256."""
    coded = [base64.b64decode(each) for each in PEM.findall(pem)]
    if not coded or any(len(each) != 44 or not each.startswith(ED25519) for each in coded):
        raise Wrong("the file of the public key holds none, or one that is not Ed25519")
    for each in coded:  # of small order: it lets anybody sign
        x, y, z, _ = multiplied(8, point_of(each[12:]))
        if x == 0 and y == z:
            raise Wrong("a public key is a point of small order, with which anybody can sign")
    return {hashlib.sha256(each[12:]).hexdigest()[:16]: each[12:] for each in coded}


def signer_of(text: bytes, keys: Mapping[str, bytes]) -> str | None:
    """Which of the keys signed a JSON object by its last field, `signature`; empty: none, although
    the field names one; None: the field is missing, or names another key."""
    found = SIGNED.fullmatch(text)
    name = found[2].decode() if found else ""
    if found is None or name not in keys:
        return None
    return name if signed_by(keys[name], found[1] + b"}", base64.b64decode(found[3])) else ""


def check_signatures(files: Files, ledger: Given, pem: Given, say: Findings) -> None:
    """Check the signatures of the certificate and of the ledger's last line, which vouches for all
    lines above it: their hashes are in what it signs."""
    lines = [line.rpartition(b',"hash":"')[0] + b"}" for line in (ledger or b"").splitlines()]
    signature = files.get("certificate.sig")
    if pem is None:
        some = signature is not None or any(map(SIGNED.fullmatch, lines))
        told = "signatures not checked: no public key was given (--public-key FILE)"
        say.open(told if some else UNSIGNED)
        return
    keys, certificate = keys_of(pem), files["certificate.json"]
    by = [name for name, key in keys.items() if signed_by(key, certificate, signature or b"")]
    text = f"the key {', '.join(keys)} has not signed certificate.json: it was changed, or another"
    wrong = f"{text} key signed it"
    if signature is None:
        wrong = "certificate.sig is missing: nobody with a key signed the certificate"
    say.check(bool(by), f"the key {', '.join(by)} has signed the certificate", wrong)
    end = len(lines)
    if not lines or signer_of(lines[-1], keys):
        vouches = f"the key has signed line {end} of the ledger, which vouches for all above it"
        say.check(True, vouches if lines else "")
        return
    false = [n for n, line in enumerate(lines, start=1) if signer_of(line, keys) == ""]
    text = f"the key has not signed line {end}, the last of the ledger"
    if false:
        text = f"line {false[0]} of the ledger was changed after the key signed it"
    why = "its signature is false" if false else "somebody without the key wrote it"
    say.check(False, wrong=f"{text}: {why}")


def check_anchor(
    certificate: Document, ledger: Given, anchor: Given, key: Given, say: Findings
) -> None:
    """That the ledger goes on from its last head, as it was written down in a second place."""
    if anchor is None:
        return
    if ledger is None:
        say.open("the anchor was not looked at: no ledger was given to compare (--ledger FILE)")
        return
    records = anchor.splitlines()
    if records and not records[-1].endswith(b"}"):  # what an interrupted write has left
        records.pop()
    heads = [read_json(record) for record in records]
    order = [(head.get("epoch", 0), head["position"]) for head in heads]
    hashes = [line.rpartition(b'"hash":"')[2][:64].decode() for line in ledger.splitlines()]
    part, end = certificate["ledger"], len(hashes)
    if not heads or any(head["hushrank_anchor"] != 1 for head in heads):
        raise Wrong("it holds no head of a ledger")
    if any(a >= b for a, b in itertools.pairwise(order)):
        raise Wrong("its heads are out of order: somebody has edited it")
    if key is not None and not signer_of(records[-1], keys_of(key)):
        raise Wrong("the key has not signed its last head: somebody without the key wrote it")
    epoch, last = order[-1]
    for head in heads:
        line, told = head["position"], f"it knows line {head['position']} of the ledger"
        if head.get("epoch", 0) < epoch or not line:
            continue  # an operator went on without it, or there was no line yet
        if line > end:
            cut_off = "lines were cut off, or an older copy was put back"
            raise Wrong(f"{told}, which ends at line {end}: {cut_off}")
        if hashes[line - 1] != head["hash"]:
            raise Wrong(f"{told}, which has another one: it was written anew, or is another ledger")
    if part and last < part["entry"]["line"]:
        own = f"line {part['entry']['line']}, which reserved this release"
        raise Wrong(f"it ends at line {last}, before {own}: it was cut off, or is an older copy")
    say.check(True, f"the ledger goes on from line {last}, the last one that the anchor knows")
    if last < end:
        say.open(f"lines of the ledger after line {last}: they are newer than the anchor")
    if epoch:
        say.open(f"the anchor: {epoch} times an operator went on without its older heads")


# 8. Files


def check_digests(files: Files, certificate: Document, say: Findings) -> None:
    """Check the files beside the certificate, and all files where a SHA256SUMS lies beside them."""
    sums = dict(certificate["files"])
    for name in (*NAMES[:3], *(MORE_TABLES & files.keys())):
        sums.setdefault(name, "none")
    listed = files.get("SHA256SUMS", b"").decode("ascii").splitlines()
    claims = [("the certificate", name, digest) for name, digest in sorted(sums.items())]
    claims += [("SHA256SUMS", line[66:], line[:64]) for line in listed]
    for source, name, digest in claims:
        found = hashlib.sha256(files[name]).hexdigest() if name in files else "missing"
        missing, other = f"{name} is missing", f"{name} is not the file of {source}"
        say.check(
            found == digest,
            f"{name} has the SHA-256 that {source} states",
            missing if found == "missing" else f"{other}: its SHA-256 is another one",
        )
    more = sorted(sums.keys() - {*NAMES[:3], *MORE_TABLES})
    say.check(not more, wrong=f"a release of format {FORMAT} has no file {short(', '.join(more))}")
    for name in sorted(files.keys() - {*sums, *NAMES}):
        say.open(f"{short(name)}: it lies beside the release, and the certificate does not know it")


NAMES = (
    *("release.json", "ranking.csv", "report.html"),
    *("certificate.json", "certificate.sig", "SHA256SUMS"),
)
# Of releases with effects, with abilities or steps of a test, with differences or fit of its items.
MORE_TABLES = {
    *("effects.csv", "scores.csv", "steps.csv", "dif.csv", "fit.csv", "rounds.csv"),
    "precincts.csv",
}


def check_scores(release: Document, say: Findings, groups: int) -> None:
    """That scores are made of what was drawn, where that takes one line; names of items; and
    elections, by the numbers of all `groups` together."""
    released, ranking, kind = release["released"], release["ranking"], release["released"]["kind"]
    told = released.get("scores") or released.get("wins")
    told = told if isinstance(told, dict) else None if kind == "top-list" else released.get("items")
    drawn: dict[str, float] = {}
    if kind == "scores" and released.get("exposures") is None:
        drawn = released["scores"]  # else a solver has improved them
        if release["scale"] == "elo":
            drawn = {item: 1000 + 400 / math.log(10) * each for item, each in drawn.items()}
    elif kind == "win-counts" and not release.get("groups"):
        drawn = win_shares(released["wins"])
    elif kind == "precinct-counts" and release.get("precincts"):
        totals = (max(each, 0.0) for each in precinct_totals(release)[0])
        drawn = dict(zip(released["items"], totals, strict=True))
    text = "release.json: the items that are ranked are not those whose numbers were drawn"
    say.check(told is None or sorted(told) == sorted(line["item"] for line in ranking), wrong=text)
    names = [each["name"] for each in release.get("effects") or ()]
    shown_ones = kind != "scores-and-effects" or [*released["effects"]] == names
    say.check(shown_ones, wrong="release.json: the effects shown are not those that were drawn")
    check_elections(release, say, groups)
    best = kind != "top-list" or sorted(released["items"]) == sorted(release["top_k"])
    say.check(best, wrong="release.json: the best items are not those that were drawn")
    if not drawn or not release["informative"]:
        say.open("that the scores follow from what was drawn: computing them takes a solver")
        return
    wrong = [
        line["item"]
        for line in ranking
        if not math.isclose(line["score"], drawn[line["item"]], rel_tol=1e-6, abs_tol=1e-6)
    ]
    say.check(
        not wrong,
        "the scores follow from the numbers that were drawn",
        f"release.json: scores of {', '.join(wrong[:3])} do not follow from what was drawn",
    )


def win_shares(wins: dict[str, float]) -> dict[str, float]:
    """Share of its comparisons that each item won, in percent; where noise takes one out of 0 to
    100 %, the nearest shares with the same sum: all are moved alike, and then cut."""
    n, total, shift = len(wins), sum(wins.values()) or math.nan, 0.0
    for _ in range(1000):
        cut = {i: min(max(50 * n * won / total - shift, 0.0), 100.0) for i, won in wins.items()}
        more = sum(cut.values()) / n - 50
        if abs(more) < 1e-10:
            break
        shift += more
    return cut


def adds_up(line: Document) -> bool:
    """Whether the parts of a score's standard error make up the whole."""
    se, noise, chance = (line.get(name) for name in ("se", "se_noise", "se_chance"))
    if se is None or noise is None or chance is None:
        return noise is None and chance is None and (se is None or bool(se >= 0))
    return bool(min(se, noise, chance) >= 0 and abs(se - math.hypot(noise, chance)) <= 1e-4 * se)


def check_order(release: Document, say: Findings, groups: int) -> None:
    """That scores and ranks lie in their intervals, and lines in the order of both; and what
    follows from the numbers of all `groups` together."""
    boards = [release["ranking"], *(each["ranking"] for each in release.get("groups") or ())]

    def inside(line: Document, end: str) -> bool:
        low, high = float(line[f"low{end}"]), float(line[f"high{end}"])
        ranked: bool = line[f"rank_low{end}"] <= line["rank"] <= line[f"rank_high{end}"]
        return ranked and low - 1e-6 <= line["score"] <= high + 1e-6

    outside = [
        line["item"]
        for line in itertools.chain(*boards)
        if not (inside(line, "") and (line.get("low_all") is None or inside(line, "_all")))
        or not all(0 <= (line.get(name) or 0) <= 1 for name in ("p_best", "p_top"))
    ]
    text = f"release.json: a score or rank of {', '.join(outside[:3])} is outside its interval"
    say.check(not outside, "every score and rank lies in its interval", text)
    add_up = all(map(adds_up, itertools.chain(*boards)))
    say.check(add_up, wrong="release.json: the parts of a standard error do not add up")
    if any(line.get("se") is not None for line in itertools.chain(*boards)):
        say.open("how large the standard errors are: only that their parts add up")
    down_the_list = [pair for board in boards for pair in itertools.pairwise(board)]
    say.check(
        all(a["score"] >= b["score"] - 1e-6 and a["rank"] <= b["rank"] for a, b in down_the_list),
        "lines are in the order of scores and of ranks",
        "release.json: lines are not in the order of their scores and ranks",
    )
    check_errors(release, say)
    check_robustness(release, say, groups)
    check_alarms(release, say)
    check_abilities(release, say, groups)
    check_differences(release, say)
    check_fit(release, say)


ENDLESS = 1 << 15  # nights of a stream without an end in sight, which shares its error by years


def check_alarms(release: Document, say: Findings) -> None:
    """That orders of watched pairs are those that the errors make certain for all nights together.
    Orders that are not certain tonight are those of earlier nights, which are not at hand."""
    told, errors = release.get("alarms"), release.get("errors")
    if told is None:
        return
    names = [line["item"] for line in release["ranking"]]
    pairs = told["pairs"] or list(itertools.combinations(sorted(names), 2))
    each, told_of = 0.05 / (release["stream"]["nights"] * len(pairs)), release["stream"]
    if told_of["nights"] == ENDLESS:  # year y has 6 / (pi y)^2 of the error
        each = 0.05 * 6 / (math.pi * (1 + (told_of["number"] - 1) // 365)) ** 2 / (365 * len(pairs))
    q = -math.log(each) / math.sqrt(2)
    if "gaussian" in release["privacy"]["mechanism"]:
        q = -NormalDist().inv_cdf(each / 2)
    good = len(told["orders"]) == len(pairs) and math.isclose(told["quantile"], q, rel_tol=1e-6)
    passed = {(each["item"], each["passed"]) for each in told["passed"]}
    sure = set()
    places = {name: place for place, name in enumerate(names)}
    for pair, order in zip(pairs, told["orders"] if good else "", strict=good):
        one, two = (places[name] for name in pair)
        left = 0.0 if errors is None else certainty_of(errors, one, two) / q
        if abs(left) > 1 - 1e-6 and order == (">" if left > 0 else "<"):
            sure.add((pair[0], pair[1]) if left > 0 else (pair[1], pair[0]))
        good = good and (abs(left) < 1 + 1e-6 or order == (">" if left > 0 else "<"))
    say.check(
        good and passed <= sure and len(passed) == len(told["passed"]),
        "alarms: orders that are certain tonight follow from scores and errors",
        "release.json: alarms: an order does not follow from scores, errors and number of nights",
    )
    say.open("that watched pairs and their earlier orders are as on the nights before")


def certainty_of(errors: Document, one: int, two: int) -> float:
    """Standard errors by which line `one` is ahead of line `two`."""
    rows, first, second = errors["covariance"], min(one, two), max(one, two)
    variance = max(rows[one][-1] + rows[two][-1] - 2 * rows[second][first], 0.0)
    gap = errors["centre"][one] - errors["centre"][two]
    return gap / math.sqrt(variance) if variance else math.copysign(math.inf, gap) if gap else 0.0


def check_robustness(release: Document, say: Findings, groups: int) -> None:
    """That it takes no fewer people to change the first place than the released counts tell, of
    all `groups` together. An estimate from scores is taken as stated, but its form is checked."""
    told, privacy, first = release.get("robustness"), release["privacy"], release["ranking"][0]
    if told is None:
        return
    kind = release["released"]["kind"]
    by, draws = LEADS.get(kind, ("scores", 0))
    scores = "estimate" if kind in ("pair-counts", "outcome-counts") else ""
    known = {by: "certificate", "scores": scores}
    one = privacy["noise_variance"] or 0.0
    if one and "laplace" in privacy["mechanism"]:  # tails as long, but less variance; 0: no noise
        one = 2 * privacy["noise_scale"] ** 2
    for each in told:
        fits = known.get(each["by"]) == each["kind"] and each["first"] == first["item"]
        fits = fits and 1 <= each["replaced"] <= each["changed"]
        if each["by"] == by and draws and fits:
            fits = holds_lead(release, each, groups * draws * one, draws)
        elif fits:
            fits = each["bound"] is None and each["noise_allowance"] is None
            say.open("that the estimate of robustness follows: computing it takes the scores")
        say.check(fits, wrong=f"robustness: more {short(each['by'])} than the counts tell")


def holds_lead(release: Document, told: Document, variance: float, draws: int) -> bool:
    """Whether so many people, but not more, are needed to make up for the smallest gap."""
    released, privacy, n = release["released"], release["privacy"], len(release["ranking"])
    gaps, unit = gaps_of(released, told["first"])
    sd, gaussian = math.sqrt(variance) * unit, "gaussian" in privacy["mechanism"]
    allowance = 0.0
    if sd and told["by"] == "majorities":
        allowance = far(0.05 / (n * (n - 1)), draws, gaussian) * sd + unit / 2
    elif sd:
        allowance = range_of(n, gaussian) * sd + unit
    rows = privacy["max_contributions"] or 1
    most = min(rows, privacy["per_item_cap"] or rows)
    most = min(most, n - 1) if privacy["distinct_pairs"] else most
    bound = {
        "wins": most,
        "net-wins": min(rows + 1, 2 * most) if privacy["distinct_pairs"] else 2 * most,
        "majorities": 1 if privacy["distinct_pairs"] else most,
        "borda": 2 * (n - 1) * rows,
        "first-places": rows,
    }[told["by"]]
    bound *= privacy.get("names_per_person") or 1  # with so much under each name
    if told["bound"] is None or told["bound"] < bound or told["noise_allowance"] is None:
        return False
    left = min(gaps) - told["noise_allowance"]
    replaced, changed = (math.ceil(left / step - 1e-9) for step in (2 * bound, bound))
    close = bool(told["noise_allowance"] >= allowance * 0.999)
    return close and told["replaced"] <= replaced and told["changed"] <= changed


def gaps_of(released: Document, first: str) -> tuple[list[float], float]:
    """How far each other item is behind the first one, in answers; what one count is worth."""
    items: list[str] = released.get("items") or [*released["wins"]]
    place, everybody = items.index(first), range(len(items))
    part = {"pair-counts": "wins", "above-counts": "above", "margin-counts": "margins"}.get(
        released["kind"]
    )
    if part is not None:  # a number for each pair, of which margins hold the difference
        table, back = released[part], part != "margins"
        own = [table[place][b] - back * table[b][place] for b in everybody]
    elif released["kind"] == "place-counts":
        rows = released["places"]
        part, own = "places", [rows[place][0] - row[0] for row in rows]
    elif released["kind"] == "net-sums":
        part, own = "nets", [released["nets"][place] - other for other in released["nets"]]
    else:
        lost = released.get("losses") or dict.fromkeys(items, 0)
        net = [won - lost[item] for item, won in released["wins"].items()]
        own = [net[place] - other for other in net]
    unit = 1 / (released.get("row_weight") or released["weights"][part])
    return [own[b] * unit for b in everybody if b != place], unit


def far(tail: float, draws: int, gaussian: bool) -> float:
    """What noise of deviation 1 exceeds with this chance: one Gaussian value, or the sum of so many
    Laplace values, by bisection."""
    if gaussian:
        return NormalDist().inv_cdf(1 - tail)
    # The sum of k values is one sum of k waits less another. It exceeds t if, once the first has
    # had j of its waits by then, the second ends before the others of the first do.
    terms = [
        sum(math.comb(draws - 1 + i, i) * 0.5 ** (draws + i) for i in range(draws - j))
        / math.factorial(j)
        for j in range(draws)
    ]
    low, high = 0.0, 100.0
    for _ in range(60):
        t = (low + high) / 2 * math.sqrt(2 * draws)
        over = math.exp(-t) * sum(term * t**j for j, term in enumerate(terms))
        low, high = ((low + high) / 2, high) if over > tail else (low, (low + high) / 2)
    return high


def range_of(n: int, gaussian: bool) -> float:
    """The 95 % quantile of the largest less the smallest of n noise values of deviation 1."""
    reach, points = (10.0, 1_000) if gaussian else (25.0, 2_500)
    step, normal = 2 * reach / points, NormalDist()

    def below(x: float) -> float:
        tail = math.exp(-math.sqrt(2) * abs(x)) / 2
        return normal.cdf(x) if gaussian else tail if x < 0 else 1 - tail

    xs = [-reach + (k + 0.5) * step for k in range(points)]
    own = [below(x + step / 2) - below(x - step / 2) for x in xs]
    under = [*map(below, xs)]
    low, high = 0.0, 2 * reach
    for _ in range(20):
        w = (low + high) / 2
        within = (max(below(x + w) - u, 0.0) ** (n - 1) for x, u in zip(xs, under, strict=True))
        total = n * sum(p * q for p, q in zip(own, within, strict=True))
        low, high = (w, high) if total < 0.95 else (low, w)
    return high


SURE = 1.5  # standard errors that lie between two items in a sure order, at least
MOST_ERRORS = 30  # standard errors from a score to its centre or to an end of its interval


def check_errors(release: Document, say: Findings) -> None:
    """That the covariance of scores is one, and that no order is sure which it leaves open."""
    errors = release.get("errors")
    if errors is None:
        return
    centre, rows = errors["centre"], errors["covariance"]
    n = len(centre)
    whole = all(len(row) == line for line, row in enumerate(rows, start=1)) and n == len(rows)
    if whole:
        own = [row[-1] for row in rows]
        whole = all(
            row[-1] >= 0 and all(x * x <= 1.0001 * own[i] * row[-1] for i, x in enumerate(row))
            for row in rows
        )
    say.check(
        whole,
        "errors: every line ends at the diagonal, and no covariance exceeds its variances",
        "release.json: errors: these are not the lower lines of a covariance",
    )
    if not whole:
        return
    far = []
    for line, score, row in zip(release["ranking"], centre, rows, strict=True):
        width = float(line["high"]) - float(line["low"])  # endless where nothing was learned
        apart = max(abs(score - line["score"]), width / 2 if math.isfinite(width) else 0)
        if apart > MOST_ERRORS * math.sqrt(row[-1]) + 1e-6:
            far.append(line["item"])
    say.check(
        not far,
        "errors: scores lie near their centres, and intervals are not much wider",
        f"release.json: errors: too small for score or interval of {', '.join(far[:3])}",
    )
    unsure, ranking = [], release["ranking"]
    # A score without an end comes of a fit that goes on for ever, whose errors are of any size.
    ends = [math.isfinite(float(line["high"]) - float(line["low"])) for line in ranking]
    for above, line in enumerate(ranking):
        for below in lines_in(line.get("surely_above") or ""):
            one, other = sorted((above, below))
            variance = rows[one][-1] + rows[other][-1] - 2 * rows[other][one]
            apart = centre[above] - centre[below] >= SURE * math.sqrt(max(variance, 0))
            if ends[above] and ends[below] and not apart:
                unsure.append(f"{line['item']} and {ranking[below]['item']}")
    say.check(
        not unsure,
        "errors: items in a sure order lie apart by their errors",
        f"release.json: errors: too large for the sure order of {', '.join(unsure[:3])}",
    )


def lines_in(text: str) -> Iterator[int]:
    """Lines of a ranking, counted from 0, that `3..7 9` names."""
    for run in text.split():
        first, _, last = run.partition("..")
        yield from range(int(first) - 1, int(last or first))


MOST_SCORES = 100  # of a booklet, whose abilities are checked, or about so many more


MEASURES = ("kr20", "alpha", "separation")


def check_abilities(release: Document, say: Findings, groups: int) -> None:
    """That abilities by raw score are Warm's, and reliabilities those of the noisy totals, which
    are sums over `groups` of numbers with noise."""
    booklets, released = release.get("test"), release["released"]
    if not booklets:
        return
    wrong = []
    for own, each in zip(steps_of_booklets(release), booklets, strict=True):
        top = sum(map(len, own))
        wrong += [
            f"{score}" if each["name"] is None else f"{score} of {short(each['name'])}"
            for score in range(0, top + 1, max(1, top // MOST_SCORES))
            if not is_warm(score, each["ability"][score], each["error"][score], own)
        ]
    say.check(
        not wrong,
        "the abilities by raw score follow from the difficulties (Warm 1989)",
        f"release.json: test: the ability of score {', '.join(wrong[:3])} is not that of the"
        " difficulties, or its error is too small",
    )
    found = [each[name] for each in booklets for name in MEASURES if each.get(name)]
    say.check(
        all(each["low"] <= each["estimate"] <= each["high"] <= 1 for each in found),
        wrong="release.json: test: a reliability is outside its interval",
    )
    if released["kind"] == "point-totals":
        check_steps(release, say)
    one = booklets[0]["kr20"] or booklets[0].get("alpha")
    if len(booklets) == 1 and one and step_of_scores(released) == 1:
        with_points = released["kind"] == "point-totals"
        name = "alpha" if with_points else "KR-20"
        value = alpha_of(released, groups * (release["privacy"]["noise_variance"] or 0.0))
        say.check(
            math.isclose(value, one["estimate"], rel_tol=1e-6, abs_tol=1e-6),
            f"the reliability {name} follows from the numbers that were drawn",
            f"release.json: test: {name} does not follow from the numbers that were drawn",
        )


def check_steps(release: Document, say: Findings) -> None:
    """That an item's difficulty is the mean of its steps, and that steps lie in their intervals."""
    (own,), score = steps_of_booklets(release), {x["item"]: x["score"] for x in release["ranking"]}
    apart = [
        item
        for item, steps in zip(release["released"]["points"], own, strict=True)
        if abs(score[item] - sum(steps) / len(steps)) > 1e-6
    ]
    say.check(
        not apart,
        "the difficulty of each item is the mean of its steps",
        f"release.json: test: the steps of {', '.join(apart[:3])} have another mean",
    )
    inside = all(
        float(each["low"]) - 1e-6 <= each["difficulty"] <= float(each["high"]) + 1e-6
        for test in release["test"]
        for each in test["steps"]
    )
    say.check(inside, wrong="release.json: test: a step is outside its interval")


def check_fit(release: Document, say: Findings) -> None:
    """That the chance of a misfit follows from its statistic, and what is said from the chance."""
    if (fits := release.get("fit")) is None:
        return
    level, wrong = 0.05 / len(fits), []
    for each in fits:
        size, statistic = each["degrees"], max(each["statistic"], 0.0)
        found = 1.0
        if 1 <= size < bands_in(release["released"]):
            found = float(chi_square_tail(size, Fraction(statistic))) if statistic else 1.0
        near = math.isclose(each["chance"], found, rel_tol=1e-4, abs_tol=1e-9)
        if (
            not near
            or size >= bands_in(release["released"])
            or each["misfits"] != (each["chance"] < level)
        ):
            wrong.append(short(each["item"]))
    say.check(
        not wrong,
        "what is said of the fit of items follows from the statistics",
        f"release.json: fit: what is said of {', '.join(wrong[:3])} does not follow",
    )
    slopes = [[each.get(name) for name in DISCRIMINATION] for each in fits]
    if any(each is not None for slope in slopes for each in slope):
        say.check(
            are_slopes(slopes, release["released"]),
            "slopes are relative to their geometric mean, lie inside their intervals, and differ by"
            " more than their errors",
            "release.json: fit: slopes are not relative to their mean, lie outside their intervals,"
            " do not differ by more than their errors, or are of two bands, of booklets or of over"
            " 300 items",
        )


DISCRIMINATION = ("discrimination", "discrimination_low", "discrimination_high")


def are_slopes(slopes: Sequence[Sequence[float | None]], released: Document) -> bool:
    """Whether slopes with intervals, item by item, may be told: see `estimation.responses`."""
    if bands_in(released) < 3 or len(released["knots"]) > 1 or len(slopes) > 300:
        return False
    logs = [[math.log(n) for n in slope if n is not None and n > 0] for slope in slopes]
    if any(len(slope) != 3 for slope in logs):
        return False
    middles = [middle for middle, _, _ in logs]
    squares = [((high - low) / 2 / NormalDist().inv_cdf(0.975)) ** 2 for _, low, high in logs]
    errors = sum(squares) / max(len(squares) - 1, 1)  # the error of the mean is in intervals
    return (
        abs(sum(middles)) < 1e-6 * len(logs)
        and all(math.isclose(m - low, high - m, abs_tol=1e-6) for m, low, high in logs)
        and all(low < high for _, low, high in logs)
        and sum(m * m for m in middles) / (len(logs) - 1) > 2 * errors * (1 - 1e-6)
    )


def check_differences(release: Document, say: Findings) -> None:
    """That differences of items between groups are those of the groups' difficulties, as far as
    the ridge lets them be known, and that sizes and intervals follow from the rest."""
    pairs, wrong = release.get("dif"), []
    if pairs is None:
        return
    groups = {each["name"]: each for each in release["groups"]}
    for pair in pairs:
        told = {each["item"]: each for each in pair["items"]}
        one, other = (
            {line["item"]: float(line["score"]) for line in groups[pair[side]]["ranking"]}
            for side in ("against", "group")
        )
        apart = {item: other[item] - one[item] for item in told}
        mean = sum(apart.values()) / len(apart)
        furthest = max(abs(each) for side in (one, other) for each in side.values())
        errors = max(each["error"] ** 2 for each in told.values())
        compared = len(told) * (len(groups) - 1)
        far = sum(each["difference"] for each in told.values())
        if abs(far) > 1e-6 * len(told):
            wrong.append(f"items of {short(pair['group'])}")
        for item, each in told.items():
            # The ridge draws a difficulty b by about b / 4 of its squared error to the mean.
            off = abs(each["difference"] - apart[item] + mean)
            if off > 1e-4 + (1 + furthest) * errors or not is_difference(each, compared):
                wrong.append(f"{short(item)} in {short(pair['group'])}")
    say.check(
        not wrong,
        "differences of items between groups follow from the difficulties of the groups",
        f"release.json: dif: {', '.join(wrong[:3])}: not the difference of the difficulties, or"
        " its interval or size does not follow",
    )


def is_difference(told: Document, compared: int) -> bool:
    """Whether interval, size and what is said of one item follow from difference and error;
    Bonferroni's interval of `compared` differences is that much wider, with Laplace noise more."""
    far, error, size = abs(told["difference"]), told["error"], told["size"]
    low, high = (far - abs(told["difference"] - told[end]) for end in ("low", "high"))
    reach = (told["high"] - told["low"]) / 2
    sure = far > reach  # alone
    of_all = reach * NormalDist().inv_cdf(1 - 0.025 / compared) / NormalDist().inv_cdf(0.975)
    return (
        math.isclose(low, high, abs_tol=1e-6)
        and 1.6 * error <= reach + 1e-9 <= 2.6 * error + 1e-6
        and size in ("A", "B", "C")
        and (size == "A" or (sure and 2.35 * far >= (1.5 if size == "C" else 1.0) - 1e-6))
        and (size != "A" or not sure or 2.35 * far <= 1.0 + 1e-6)
        # An interval of 90 % has .84 of the width of one of 95 %; with Laplace noise, .795 or more.
        and (size != "C" or 2.35 * (far - 0.79 * reach) > 1.0 - 1e-5)
        and (far > of_all - 1e-5 or not told["differs"])
    )


def is_warm(score: int, ability: float, error: float, items: Sequence[Sequence[float]]) -> bool:
    """Whether an ability solves Warm's equation for a raw score, of items with these steps; its
    error is at least that of answers alone."""
    expected = known = bend = 0.0
    for steps in items:
        logs = [0.0, *itertools.accumulate(ability - step for step in steps)]
        weights = [math.exp(each - max(logs)) for each in logs]
        chances = [each / sum(weights) for each in weights]
        mean = sum(h * p for h, p in enumerate(chances))
        expected += mean
        known += sum((h - mean) ** 2 * p for h, p in enumerate(chances))
        bend += sum((h - mean) ** 3 * p for h, p in enumerate(chances))
    if known == 0:
        return False
    off = (score - expected + bend / (2 * known)) / known
    return abs(off) < 1e-6 and error * error * known > 1 - 1e-6


def alpha_of(released: Document, variance: float) -> float:
    """KR-20 or alpha of noisy totals in which every raw score has a number of sheets."""
    of_sheet, knots, sheets = released["sheet_weight"], released["knots"], released["sheets"]
    with_points = released["kind"] == "point-totals"
    if not with_points:
        (knots,), (sheets,) = knots, sheets
    people = sum(sheets) / of_sheet
    mean = sum(r * h for r, h in zip(knots, sheets, strict=True)) / of_sheet / people
    squares = [(r - mean) ** 2 for r in knots]
    spread = sum(q * h for q, h in zip(squares, sheets, strict=True)) / of_sheet / people
    spread += variance / of_sheet**2 * sum(squares) / people**2
    unit = released["answer_weight"] * (released["share"] if with_points else 2) * people
    if with_points:
        cells = [[each / unit for each in own] for own in released["points"].values()]
    else:
        cells = [[-z / unit, z / unit] for z in released["right_minus_wrong"].values()]
    within = 0.0
    for own in cells:
        shares = [each - sum(own) / len(own) + 1 / len(own) for each in own]
        first = sum(h * p for h, p in enumerate(shares))
        middle = (len(own) - 1) / 2
        noise = sum((h - middle) ** 2 for h in range(len(own)))
        noise = noise if with_points else bands_in(released)
        within += sum(h * h * p for h, p in enumerate(shares)) - first**2
        within += variance * noise / unit**2
    n = len(cells)
    value: float = n / (n - 1) * (1 - within / spread)
    return value


MOST_WRONG = 3  # differences of a table that are told
ENDS = ("low", "high", "low_all", "high_all", "share_low", "share_high")  # of intervals
COLUMNS = ("rank", "item", "score", "low", "high", "rank_low", "rank_high", "group")


def check_table(files: Files, release: Document, say: Findings) -> None:
    """That ranking.csv has the lines of release.json, number by number, and no other column."""
    boards = [("", release), *((each["name"], each) for each in release.get("groups") or ())]
    top = f"p_top_{release.get('top')}"

    def lines() -> Iterator[Document]:
        for name, board in boards:
            won = wins_by_item(board["released"])
            for line in board["ranking"]:
                values = {**line, "label": line.get("label") or line["item"], "board": name}
                values |= {"unit": release.get("unit"), top: line.get("p_top")}
                if won is not None:
                    values["noisy_wins"] = won[line["item"]]
                yield values

    wrong = compare_table(files["ranking.csv"], lines(), COLUMNS)
    text = f"ranking.csv differs from release.json: {'; '.join(wrong[:MOST_WRONG])}"
    say.check(
        not wrong, "ranking.csv has the items, scores, intervals and ranks of release.json", text
    )
    for name, what, rows, needed in further_tables(release):
        if name not in files and not rows:
            continue
        wrong = compare_table(files[name], rows, needed)
        text = f"{name} differs from release.json: {'; '.join(wrong[:MOST_WRONG])}"
        say.check(not wrong, f"{name} has the {what} of release.json", text)


def lines_of_effects(release: Document) -> list[Document]:
    """Effects of covariates in all rows and in each group, as effects.csv has them."""
    boards = [("", release), *((each["name"], each) for each in release.get("groups") or ())]
    effects = [
        {**each, "effect": each["name"], "board": name}
        for name, board in boards
        for each in board.get("effects") or ()
    ]
    for each in effects:
        for name, end in (("share", "estimate"), ("share_low", "low"), ("share_high", "high")):
            each[name] = 1 / (1 + math.exp(-float(each[end])))
    return effects


def further_tables(release: Document) -> Iterator[tuple[str, str, list[Document], tuple[str, ...]]]:
    """Each table beside ranking.csv: its name, what it tells, its lines and needed columns."""
    yield "effects.csv", "effects", lines_of_effects(release), ("effect", "estimate", "low", "high")
    booklets = release.get("test") or []
    scores = [
        {"score": score, "ability": ability, "standard_error": error, "booklet": each["name"]}
        for each in booklets
        for score, (ability, error) in enumerate(zip(each["ability"], each["error"], strict=True))
    ]
    yield "scores.csv", "abilities", scores, ("score", "ability", "standard_error")
    steps = [
        {**step, **{end: float(step[end]) for end in ("low", "high")}}
        for each in booklets
        for step in each.get("steps") or ()
    ]
    yield "steps.csv", "steps", steps, ("item", "points", "difficulty")
    differences = [
        {
            **each,
            "group": pair["group"],
            "against": pair["against"],
            "standard_error": each["error"],
            "z": each["difference"] / each["error"] if each["error"] else 0.0,
            "differs": "yes" if each["differs"] else "no",
        }
        for pair in release.get("dif") or []
        for each in pair["items"]
    ]
    columns = ("group", "against", "item", "difference", "standard_error", "size", "differs")
    yield "dif.csv", "differences", differences, columns
    fits = [
        {
            **{name: each[name] for name in ("item", "statistic", "degrees", "chance")},
            "misfits": "yes" if each["misfits"] else "no",
            "slope": "steeper" if each["steeper"] else "flatter",
            **{name: each[name] for name in DISCRIMINATION if each.get(name) is not None},
        }
        for each in release.get("fit") or []
    ]
    told = ("item", "statistic", "degrees", "chance", "misfits", "slope")
    yield "fit.csv", "fit", fits, told
    named = ("level", "code", "district", "item", "noisy", "low", "high", "votes")
    yield "precincts.csv", "votes by precinct", lines_of_precincts(release), named
    of_rounds = ("round", "item", "ballots", "exhausted", "leaves", "may_leave", "reached")
    yield "rounds.csv", "rounds", lines_of_rounds(release), of_rounds


def lines_of_rounds(release: Document) -> list[Document]:
    """A line for each round and each item that is left in it."""
    rounds = (release.get("election") or {}).get("rounds") or []
    return [
        {
            **{"round": number, "item": item, "ballots": count, "exhausted": exhausted},
            "leaves": "yes" if item == each["out"] else "no",
            "may_leave": "yes" if item in each["possible"] else "no",
            "reached": "yes" if each["reached"] else "no",
        }
        for number, each in enumerate(rounds, 1)
        for exhausted in release["released"]["exhausted"][number - 1 : number]
        for item, count in zip(
            release["released"]["items"], release["released"]["rounds"][number - 1], strict=True
        )
        if count is not None
    ]


def lines_of_precincts(release: Document) -> list[Document]:
    """A line for each precinct, each district and all together, and each item."""
    told, released = release.get("precincts"), release["released"]
    if told is None:
        return []
    inside = {code: name for name, own in (told["districts"] or {}).items() for code in own}
    levels = [
        ("precinct", code, inside.get(code, ""), "precincts", counts, votes)
        for code, counts, votes in zip(
            told["precincts"], released["precincts"], told["votes"], strict=False
        )
    ]
    if told["elsewhere"]:
        last = released["precincts"][-1], told["votes"][-1]
        levels.append(("elsewhere", "", "", "precincts", *last))
    for name, counts, votes in zip(
        told["districts"] or (),
        released["districts"] or (),
        told["votes_of_districts"] or (),
        strict=True,
    ):
        levels.append(("district", name, "", "districts", counts, votes))
    levels.append(("all", "", "", "totals", released["totals"], told["votes_of_all"]))
    found = []
    for level, code, district, name, counts, own in levels:
        reach = told["reach" if name == "precincts" else "wide_reach"]
        apart = told.get("margin_reach" if name == "precincts" else "wide_margin_reach")
        first, second = sorted(counts, reverse=True)[:2]
        for item, count, votes in zip(released["items"], counts, own, strict=True):
            noisy = count / released["weights"][name]
            ends = {"low": max(noisy - reach, 0.0), "high": max(noisy + reach, 0.0)}
            line = {"level": level, "code": code, "district": district, "item": item}
            line |= {"noisy": noisy, **ends, "votes": votes}
            if apart is not None:
                margin = noisy - (second if count == first else first) / released["weights"][name]
                line |= {"margin": margin}
                line |= {"margin_low": margin - apart, "margin_high": margin + apart}
            found.append(line)
    return found


def wins_by_item(released: Document) -> dict[str, float] | None:
    """Comparisons won by each item, noise included; None where no such counts are published."""
    kind, wins = released["kind"], released.get("wins")
    if kind not in ("win-counts", "win-loss-counts", "pair-counts", "tie-counts", "outcome-counts"):
        return None
    if wins is None:  # of more pairs than are published
        return None
    weight = released.get("row_weight", 1)
    if kind == "outcome-counts":
        sums = [0] * len(wins)
        for i, row in enumerate(zip(released["pairs"], released["compared"], wins, strict=True)):
            for j, total, won in zip(*row, strict=True):
                sums[i], sums[j] = sums[i] + won, sums[j] + total - won
        wins = dict(zip(released["items"], sums, strict=True))
    elif not isinstance(wins, dict):
        wins = dict(zip(released["items"], map(sum, wins), strict=True))
    return {item: won / weight if weight > 1 else won for item, won in wins.items()}


def compare_table(content: bytes, lines: Iterable[Document], needed: Sequence[str]) -> list[str]:
    """How a table differs from these lines; both are read line by line, for there may be many."""
    rows = csv.reader(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline=""))
    (header,) = itertools.islice(rows, 1)
    named: set[str] = set()
    cells: list[str] = []
    n_rows = n_lines = 0
    for row, line in itertools.zip_longest(rows, lines):
        n_rows, n_lines = n_rows + (row is not None), n_lines + (line is not None)
        named.update(line or ())
        if row is None or line is None or len(cells) > MOST_WRONG:
            continue
        cells += ["a line with another number of cells"] if len(row) != len(header) else []
        cells += [
            f"{column} of {next(iter(line.values()))} is {short(cell)}"
            for column, cell in zip(header, row, strict=False)
            if column in line and not same_cell(cell, line[column], column)
        ]
    wrong = [f"{n_rows} lines, not {n_lines}"] if n_rows != n_lines else []
    wrong += [f"no column {name}" for name in needed if name not in header]
    wrong += [f"column {short(name)}" for name in header if name not in named]
    wrong += ["a column stands twice"] if len({*header}) < len(header) else []
    return wrong + cells


def same_cell(cell: str, value: Any, column: str) -> bool:
    """Whether a cell of a table shows this value; an end that is infinite may be empty."""
    if cell == "" and column in ENDS:
        return value is None or math.isinf(float(value))
    if isinstance(value, float):
        return cell in (f"{value:.6f}", f"{value:g}", f"{value}")
    return cell in ("" if value is None else f"{value}", f"'{value}")  # '= is no formula


class Page(HTMLParser):
    """What the checks need of report.html: its tables, its text and the files inside it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.language = "en"
        self.tables: list[tuple[str, list[list[str]]]] = []  # class of the table, rows of cells
        self.files: list[tuple[str, str]] = []  # name, content in base64
        self.text: list[str] = []
        self._cell: list[str] | None = None
        self._drawings = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A table, a row, a cell or a link begins."""
        said = {name: value or "" for name, value in attrs}
        if tag == "html":
            self.language = said.get("lang", "en")
        elif tag == "table":
            self.tables.append((said.get("class", "").partition(" ")[0], []))
        elif tag == "tr" and self.tables:
            self.tables[-1][1].append([])
        elif tag in ("td", "th"):
            self._cell = []
        elif tag in ("style", "script", "svg"):
            self._drawings += 1
        elif said.get("href", "").startswith("data:"):
            self.files.append((said.get("download", ""), said["href"].partition("base64,")[2]))
        elif tag in ("span", "dt", "dd"):
            self.handle_data("\n")

    def english(self, text: str) -> str:
        """A text of a cell with its numbers as English writes them."""
        point, thousands = SIGNS.get(self.language, SIGNS["en"])
        return text.replace(thousands, "").replace(point, ".")

    def handle_endtag(self, tag: str) -> None:
        """A cell ends."""
        if tag in ("style", "script", "svg"):
            self._drawings -= 1
        elif tag in ("td", "th") and self._cell is not None:
            self.tables[-1][1][-1].append("".join(self._cell).strip())
            self._cell = None

    def handle_data(self, data: str) -> None:
        """Text; not in drawings and scripts."""
        if not self._drawings:
            self.text.append(data)
            if self._cell is not None:
                self._cell.append(data)


FACTS = {"Epsilon": "epsilon", "Delta": "delta", "Rho (zCDP)": "rho", "Noise scale": "noise_scale"}
# Signs before the decimals and between thousands, and the headings of a translated page.
SIGNS = {
    "en": (".", ","),
    **dict.fromkeys(["de", "es", "pt"], (",", ".")),
    "fr": (",", "\u202f"),
}
IN_ENGLISH = {
    **dict.fromkeys(["Platz", "Puesto", "Lugar"], "Place"),
    **dict.fromkeys(["Eintrag", "Elemento", "Élément"], "Item"),
    **dict.fromkeys(["Verrauschte Siege", "Victorias con ruido"], "Noisy wins"),
    **dict.fromkeys(["Victoires bruitées", "Vitórias com ruído"], "Noisy wins"),
    **dict.fromkeys(["Rauschskala", "Escala del ruido"], "Noise scale"),
    **dict.fromkeys(["Échelle du bruit", "Escala do ruído"], "Noise scale"),
    "Épsilon": "Epsilon",
}


def heading(text: str) -> str:
    """A heading of a page, in English."""
    return IN_ENGLISH.get(text, text)


def check_report(files: Files, release: Document, say: Findings) -> None:
    """That the page holds the very files, says the guarantee, and shows the same numbers."""
    page, privacy = Page(), release["privacy"]
    page.feed(files["report.html"].decode())
    for name in sorted(files.keys() & {"release.json", "ranking.csv", *MORE_TABLES}):
        found = [each for said, each in page.files if said.endswith(f"-{name}")]
        say.check(
            all(base64.b64decode(each) == files[name] for each in found),
            f"report.html holds {name} as it is" if found else "",
            f"report.html holds another {name} than the one beside it",
        )
    check_page_words(page, release, say)
    facts = [row for kind, rows in page.tables if kind == "guarantee" for row in rows]
    named = [(FACTS[name], row) for row in facts if (name := heading(row[0])) in FACTS]
    stated = {name: f"{float(privacy[name]):.6g}" for name, _ in named}
    wrong = [" ".join(row) for name, row in named if page.english(row[1]) != stated[name]]
    boards = [release, *(release.get("groups") or ())]
    filled = [rows for _, rows in page.tables if rows]
    tables = [rows for rows in filled if [*map(heading, rows[0][:2])] == ["Place", "Item"]]
    whole = [release] * (len(tables) - len(boards) + 1)  # long rankings have a second table
    for rows, board in zip(tables, whole + boards[1:], strict=True):
        by_name = {line.get("label") or line["item"]: line for line in board["ranking"]}
        end = -1 if heading(rows[0][-1]) in ("Wins", "Noisy wins") else len(rows[0])
        lines = [row[:end] for row in rows[1:] if len(row) > 3]
        wrong += [" ".join(row[1:4]) for row in lines if not says_line(row, by_name, release, page)]
    say.check(
        bool(tables) and not wrong,
        "report.html shows the scores, intervals, ranks and parameters of release.json",
        f"report.html shows other numbers than release.json: {'; '.join(wrong[:3])}",
    )


def check_page_words(page: Page, release: Document, say: Findings) -> None:
    """That the page says the guarantee and the operator's own words; no translation is judged."""
    privacy, said = release["privacy"], " ".join("".join(page.text).split())
    about = release.get("about") or {"sample": "drawn"}
    sentences = [each for name, each in about.items() if each and name != "sample"]
    told = "every word of the operator"
    if page.language in SIGNS and page.language != "en":
        say.open(f"report.html is a translation ({page.language}): what its sentences say")
    else:
        told = "epsilon and every sentence of the guarantee"
        sentences += ["not the public."] * (about["sample"] != "drawn")
        sentences += [*privacy["statement"], *privacy["not_protected"], privacy["theorem"]]
        sentences += [f"Epsilon {float(privacy['epsilon']):.6g} "]
    missing = [each for each in sentences if " ".join(each.split()) not in said]
    say.check(
        not missing,
        f"report.html says {told}" if sentences else "",
        f"report.html does not say: {''.join(missing[:1])}",
    )


def says_line(
    row: list[str], by_name: Mapping[str, Document], release: Document, page: Page
) -> bool:
    """Whether every number in a line of the ranking is one of the line in release.json, rounded."""
    line = by_name.get(row[1])
    if line is None:
        return False
    values = [float(each) for each in line.values() if isinstance(each, (int, float))]
    values += [100 * line[name] for name in ("p_best", "p_top") if line.get(name) is not None]
    values += [95.0, float(release.get("top") or 0), 1.0, 99.0]
    named = rf"{re.escape(row[1])}(?: \({re.escape(line['item'])}\))?\u00a0?: "
    cells = page.english(re.sub(named, "", " ".join(row[2:])))  # a name may be a number
    found = re.findall(r"(?<![\d.])[+-]?\d+(?:\.\d+)?", cells.replace("\u2212", "-"))
    places = [(float(text), 0.50001 * 10 ** -len(text.partition(".")[2])) for text in found]
    return all(any(abs(a - value) <= rounding for value in values) for a, rounding in places)


# 9. Words: every sentence of the guarantee, from the numbers


# Where a sentence begins stands what has to be so of the release (`-`: must not be; `|`: one of
# these), up to the colon. Where later versions say it otherwise, their sentence goes in front, and
# the older one follows it after `||`. In braces stand numbers, and the parts of `FRAGMENTS`.
STATEMENT_TEXT = """
none: Nothing is protected: epsilon is infinite, so no noise was added.
user stream add-remove: Each person is protected, with all their answers on all {nights} nights of
    the stream, and so is whether they took part on any of them.
user stream -add-remove: Each person is protected, with all their answers on all {nights} nights of
    the stream.
central comparison: Each single answer (one comparison) is protected.
central user -stream add-remove: Each person is protected, with all their answers in this run's
    input, and so is whether they took part.
central user -stream replace-one: Each person is protected, with all their answers in this run's
    input.
central user names: A person may have up to {names} user names here: what is given under any
    {names} names is protected together, and the bounds on a person's answers hold for each name.
private-sums at_source: Each answer was privatised where it was given; true answers were never
    collected.
private-sums -at_source: Each answer was privatised by itself before it was counted.
randomised-answers: All answers of a person together are protected, each {where}.
private-pairs at_source: Each ranking was answered for where it was given, with private answers to
    {pairs_of} of {of_whose}; true rankings were never collected.
private-pairs -at_source: Each ranking was replaced by private answers to {pairs_of} of {of_whose},
    before anything was counted.
private-rankings at_source: Each ranking was replaced by a synthetic one where it was given; true
    rankings were never collected.
private-rankings -at_source: Each ranking was replaced by a synthetic ranking of the same items,
    before it was counted.
central: {change}, no result of {of_what}, nor anything computed from it, would become more than
    {odds} times as likely (e^epsilon, epsilon = {epsilon}){but_for}.
private-sums: If one answer were another, nothing here would become more than {odds} times as likely
    (e^epsilon); its epsilon {an_answer}.
randomised-answers: If a person had answered the same items otherwise, nothing here would become
    more than {odds} times as likely (e^epsilon, epsilon = {epsilon}).
private-pairs: If somebody had {had}, nothing here would become more than {odds} times as likely
    (e^epsilon): the loss of a whole ranking {is_one}. The budget is charged with {charged}.
private-rankings: If somebody had put one item of their ranking at another place, nothing here would
    become more than {odds} times as likely (e^epsilon; the epsilon of a ranking {is_one}).
private-rankings: If they had put the same items in any other order, nothing would become more than
    {whole_odds} times as likely: the loss of a whole ranking is {whole_ranking} at most ({formula},
    for the longest ranking allowed, m = {longest}). The budget is charged with this larger loss.
-none: That holds against anybody, whatever else they know, even the answers of everybody else.
central -delta: A guess between two such cases that was right with a chance of 50 % before is right
    with a chance of at most {sure} % after seeing it.
beside: Of that, counts beside the ranking took epsilon = {beside}, the same part each:
    {beside_told}. Each number has discrete Laplace noise of its own.
beside -look: Epsilon = {rest}{rest_delta} was left, and what follows speaks of that.
look: Of that, a look at the rows took epsilon = {look}: it was drawn first and told {whose}, and
    how many do not, each number with discrete Laplace noise of its own. Had it been near certain
    that fewer than half fit, the run would have stopped there. Epsilon = {rest}{rest_delta} was
    left, and what follows speaks of that. || Of that, a look at the rows took epsilon = {look}: it
    was drawn first and told {whose_then}, and how many do not, each number with discrete Laplace
    noise of its own. Had it been near certain that fewer than half fit, the run would have stopped
    there. Epsilon = {rest}{rest_delta} was left, and what follows speaks of that.
look asked: The run would have stopped as well had it been near certain that fewer than half of the
    {asked:,} people asked have rows that name them.
look unlisted user: The look also told how many people gave an answer with an item that is not
    listed, with noise of the same law.
look unlisted -user: The look also told how many rows name an item that is not listed, with noise of
    the same law.
found: The items are names that people wrote. At most {most_names} distinct names of each person
    count, chosen at random; where a person wrote d of them, each gets the weight 1 / sqrt(d). The
    sum of the weights of each name got discrete Gaussian noise, which gives zCDP with rho =
    {names_rho}, and a name is published only if its noisy sum reaches a public threshold.
found: A name that one person alone wrote is published with a probability of at most {names_delta},
    a part of delta. The rest of the budget, rho = {ranking_rho}, pays for the ranking of these
    names.
public: Only who won is protected, not who compared what. That this is public is stated by the
    operator: “{stated}”.
counts -stream: Every {entry}, zeros included, got its own discrete {law} noise of scale {scale}
    (standard deviation {deviation}); {computed}.
counts -stream laplace: The scale is sensitivity / epsilon: such a change moves the counts by at
    most {l1} altogether (l1 norm), and {l1} / {own_epsilon} = {l1_over_epsilon}.
counts -stream gaussian found: Such a change moves the counts by at most {l2} as a vector (l2 norm,
    the sensitivity). With the noise of the names it gives epsilon and delta; by itself it gives
    zCDP with rho = squared sensitivity / (2 squared scale) = {rho}.
counts -stream gaussian -found: Such a change moves the counts by at most {l2} as a vector (l2
    norm, the sensitivity). Epsilon and delta are those of discrete Gaussian noise of this scale. It
    also gives zCDP with rho = squared sensitivity / (2 squared scale) = {rho}.
stream squares: A night on which n answers of a person count takes n squared plus n from the
    person's allowance, which is {metered_rows} for all {nights} nights of the stream
    together{burst_of_squares}.{apart_of_squares} Other answers are left out.
stream metered -squares: At most {metered_rows} of a person's answers count on all {nights} nights
    of the stream together{burst_of}. Answers of a person on the same two items count at most
    {pair_once}. Other answers are left out.
stream -metered: The answers of a person count on {nights_of} of the {nights} of the stream{apart}:
    the first night with answers of theirs, and then each that is far enough from the last one that
    counted. On other nights they are left out.
stream: One budget pays for all {nights} nights: adding nights costs nothing, so each night more
    that is released costs nobody anything more.
stream: Each night every {entry}, zeros included{spread} got its own discrete {law} noise of
    standard deviation {deviation}, drawn once. What is shown, {shown}, is made of these noisy
    numbers alone, and its noise has standard deviation {shown_deviation} on the last
    night{in_groups}; {computed}.
stream laplace: Such a change moves the counts of all nights together by at most {l1} (l1 norm), and
    the scale of the noise is that, divided by epsilon.
stream gaussian: Such a change moves what the noise of all nights is added to by at most {l2} as a
    vector (l2 norm, the sensitivity). Epsilon and delta are those of discrete Gaussian noise of
    this scale. It also gives zCDP with rho = squared sensitivity / (2 squared scale) = {rho}.
groups overlap: Counts are kept for {named_groups} groups, which may overlap, and for all answers
    together. An answer counts in {overlap} of the groups at most and once in the whole, and the
    noise hides a change of any answers in any groups: {cost} is paid once for all rankings
    {of_which} together.{across}
groups -precinct-counts -overlap -scores-and-effects: Counts are kept apart for {named_groups}
    groups{others}. An answer counts in one of them only, and the noise hides a change of any
    answers in any groups: {cost} is paid once for all rankings {of_which} together.{across}
balanced: The operator states that every pair of items was asked about equally often. Shares and
    ranks rest on that: where it is not so, an item that was shown more often ranks higher for that
    reason alone.
chance: The operator states that chance decided which items met, though some were shown more often
    than others. Scores and intervals rest on that: where strong items met strong ones more often
    than weak ones did, scores lie too near each other.
max_weight: An answer counts by its weight, a column of the input, and by {max_weight} at most.
weighted: The released counts are in units of 1/{units:,} of an answer of weight 1{halves}; scale
    and sensitivity are too. The sum of all squared weights got noise of the same scale, as one more
    number of the vector; it says how far chance reaches in the counts.
counts split -stream -weighted: A tie is half a win for each item; the released counts are in half
    wins, and scale and sensitivity are too.
stream split: A tie is half a win for each item; these numbers are in half wins.
tie-counts: A tie is an outcome of its own, and an answer counts in one of the three counts of its
    pair: the noise that hides who won hides whether an answer was a tie, too.
top-list: Every win count got its own discrete Laplace noise of scale {scale}, the {k} items with
    the largest noisy counts were listed, and counts and noise were deleted: the list is all that
    leaves.
scores: The scores are those that fit the answers best ({link} link) while a penalty of weight gamma
    = {ridge} and a secret random pull hold each of them: {law} noise of scale {scale} (standard
    deviation {deviation}). Only {sources} leave; the counts they were fitted to are deleted as soon
    as the noise is drawn, and ranking and intervals are computed from {sources} alone.
scores stated: How often each {stated_what} is compared was stated by the operator as a public fact
    that nobody counted in the answers; intervals rest on it, and no epsilon is spent on it.
exposures -drawn: These numbers say how often each item was compared. They follow from who compared
    what, which is public, and carry no noise.
exposures drawn: These numbers say how often each item was compared, each with its own discrete
    Laplace noise of scale {exposures_scale} (standard deviation {exposures_deviation}): such a
    change moves them by at most {exposures_l1} altogether (l1 norm), and {exposures_l1} /
    {exposures_epsilon} = {exposures_ratio}. They take {exposures_epsilon} of epsilon, and the
    scores {scores_epsilon}.
scores: Gamma is public: it follows from the configuration, and nothing was counted to choose it.
scores laplace: {parts}: {pull} for the pull (such a change moves the gradient by at most
    {sensitivity} altogether, over the scale), {determinant} for what the curvature tells, and
    {last_digits} for the last digits.
scores gaussian: Such a change moves the gradient by at most {sensitivity} as a vector (l2 norm). Of
    {whole}, {determinant} is for what the curvature tells and {last_digits} for the last digits.
scores: The last digits, which rounding and the solver leave behind, are covered by discrete Laplace
    noise of standard deviation {cover_deviation}.
scores-and-effects: The scores and the effects are those that fit the answers best (logistic link)
    while a penalty of weight gamma = {ridge} and a secret random pull, Laplace noise of scale
    {scale}, hold each score; {effects}.
scores-and-effects: Each covariate of a row is divided by its public scale and clipped to between -1
    and 1 before anything else is done with it, so no row can pull an effect by more than 1.
scores-and-effects groups: This is done apart for {named_groups} groups{others}, and for all answers
    together. An answer counts in one of the groups only and once in the whole, and the noise hides
    a change of any answers in any groups: epsilon is paid once for all rankings of this release
    together.{across}
scores-and-effects: How much the answers tell of each score and effect, from which the intervals
    follow, is released with discrete Laplace noise of its own (standard deviations {deviations},
    counted in comparisons of equal items).
scores-and-effects: Of epsilon, {pull} is for the pull (such a change moves the gradient by at most
    {sensitivity} altogether{counted}), {determinant} for what the curvature tells, {last_digits}
    for the last digits and {information} for how much the answers tell.
scores-and-effects: Gamma is public: it follows from the configuration, and nothing was counted to
    choose it. The last digits, which rounding and the solver leave behind, are covered by discrete
    Laplace noise of standard deviation {cover_deviation}. Only these scores, effects and numbers
    leave; the rows they were fitted to are deleted as soon as the noise is drawn.
private-sums laplace-response: Each answer, 0 or 1, got its own discrete Laplace noise of scale 1 /
    epsilon; scores and intervals are computed from the sums of noisy answers alone.
private-sums randomised-response: Each answer was flipped with probability 1 / (e^epsilon + 1), by
    secret bits; scores and intervals are computed from the sums of flipped answers alone.
private-sums per_user: A person's epsilon was divided by the number of their answers, so all of them
    together are protected at the person's epsilon, {high} at most.
private-sums -per_user bounded: At most {L} answers of each person count, chosen without looking at
    what was answered; all of them together are protected at the sum of their epsilons, {person} at
    most.
private-sums shuffled -gained: Being one of many adds nothing that can be proven here: a pair has
    too few answers for the theorem on shuffling ({shuffle_theorem}).
private-sums shuffled gained: Somebody who sees this release alone, and not the single privatised
    answers, learns less: an answer is then protected at epsilon = {shuffled} but for a probability
    of {shuffle_delta} ({shuffle_theorem}, with {reports} answers to the pair that has fewest).
randomised-answers: Each answer was flipped with probability 1 / (e^(epsilon / k) + 1), k the number
    of answers of its person, by secret bits; difficulties and intervals are computed from the sums
    of flipped answers alone.
randomised-answers: At most {L} answers of each person count, chosen at random.
randomised-answers levels at_source: The epsilon of each person came with their answers, and is one
    of the public levels; answers with another one do not count. It is the largest that is stated,
    or less.
randomised-answers levels -at_source: The epsilon of each person came with their answers, and was
    rounded down to one of the public levels before anything was drawn; it is the largest that is
    stated, or less.
private-pairs hide_items: The {pairs_were} drawn by secret bits from the whole catalogue, whatever
    was ranked; each answer (above, below, or not both ranked) became each of the two others with
    probability 1 / (e^x + 2), x = {part}. All results are computed from such answers alone.
private-pairs -hide_items: The {pairs_were} drawn by secret bits among those of the ranked items,
    without looking at their order; each answer was flipped with probability 1 / (e^x + 1), x =
    {part}. All results are computed from such answers alone.
laplace-ranks: To each rank discrete Laplace noise of scale 2 (m - 1) / epsilon was added, and items
    were put in the order of the noisy ranks. This is a baseline: mechanism mallows is more accurate
    at the same epsilon.
mallows: The synthetic ranking was drawn by secret bits from a Mallows law around the true one: each
    pair of items on which the two agree makes it e^(epsilon / (m - 1)) times as likely, m items in
    the list. All results are computed from synthetic rankings alone.
private lists levels at_source: The epsilon of each ranking came with it, and is one of the public
    levels; rankings with another one do not count.
private lists levels -at_source: The epsilon of each ranking came with it, and was rounded down to
    one of the public levels before anything was drawn.
chosen: This mechanism was chosen from public numbers: {chosen}.
private lists unnamed: Each ranking in the input counts as the one ranking of another person.
private lists -unnamed one_list: One ranking of each person counts; of several, one was chosen at
    random.
private lists -unnamed -one_list: At most {L} rankings of each person count, chosen at random; all
    of them together are protected at the sum of their losses, {person} at most.
trusted lists multiplied: What is released is multiplied by whole numbers first ({products}), so
    that one noise serves all; scale and sensitivity are of these products.
round-counts: In each round the item with the smallest noisy count left, and rankings went on to the
    best of their items that was left. The noise of all rounds was drawn before the first one.
trusted lists unnamed: Each ranking in the input counts as the one ranking of another person{end}
trusted lists -unnamed one_list: One ranking of each person counts; of several, a secret key chose
    one{end}
trusted lists -unnamed -one_list: At most {L} rankings of each person count, chosen by a secret
    key{end}
precinct-counts: A ranking counts in one precinct only, and the noise hides a change of any rankings
    of a person in any precincts: {cost} is paid once for the whole table.
trusted lists -precinct-counts unlisted_below: Items that a ranking does not list count as below
    those it lists.
trusted lists -precinct-counts unlisted_unknown: Items that a ranking does not list are taken as
    unknown: it says nothing of them.
central user by_weights: All answers of each person count, at most one on each pair of
    items{and_cap}. Of a person with more than {L} of them each counts less, the less the more there
    are: together they move the counts by no more, as a vector, than {L} answers could.
central user -by_weights -stream -lists: At most {L} answers of each person count, chosen at
    random{distinct}{cap}; the rest of a person's answers are not used.
right-wrong-counts|sheet-totals booklets: A sheet belongs to one of the test's public booklets; one
    that fits none, or several, does not count.
right-wrong-counts missing_unseen: An item that a person left out is taken as not asked, by chance.
point-totals: A sheet with more points than an item gives, or with part of one, does not count.
right-wrong-counts|sheet-totals|point-totals missing_wrong: An item that a person left out counts as
    a wrong answer.
right-wrong-counts|sheet-totals|point-totals missing_set-aside: The sheet of a person who left an
    item out does not count.
sheet-totals bands: Right less wrong answers are counted apart, each number with its noise, for
    sheets of low to high raw scores; what is said of all sheets is made of the sums.
stream: On {which_night} night at most {L} answers of each person count, chosen at
    random{distinct}{cap}; the rest of a person's answers are not used.
"""
NOT_PROTECTED_TEXT = """
none: Everything: what is released is exact, and may expose single answers.
multiline: Rows from other rows, because input.multiline is set: one row of a CSV file with an open
    quote swallows those after it, up to 1 MiB. Whoever writes such a row moves the result by more
    than the noise hides, and so by more than the stated factor.
public: Which items each person compared, and so which questions they left unanswered: the operator
    states that this is public.
scores-and-effects: The names, number and scales of the covariates, which are public parts of the
    configuration: choose scales by what is known beforehand, never by looking at the answers.
trusted lists unnamed: A person with several rankings in the input: each is protected as if it were
    another person's, and their losses add up, unbounded.
private-sums: Which pairs were compared, how often and at which epsilon, and that an answer was
    given at all: only what was answered is hidden.
private-sums ordered: Which item of each pair was shown first, and how many answers people gave:
    sums of both are published as they are, some of them of few people. So a column of who was shown
    first must say nothing of the answer.
private-sums -per_user -bounded: A person with many answers: for k answers the loss is the sum of
    their k epsilons, and nothing bounds k here.
randomised-answers: Which items a person answered, and that they took part.
randomised-answers levels: Which epsilon a person chose: how many chose each is published.
private-pairs hide_items: That a ranking was given at all{contests}, and whether it held more than
    {longest} items: longer ones were left out.
private-pairs -hide_items: Which items a person ranked, and how many{contests}, and that a ranking
    was given at all: each answer shows two of the items, and only their order is hidden.
private-rankings: Which items a person ranked, and how many{contests}, at which epsilon, and that a
    ranking was given at all: only the order of the ranked items is hidden.
private lists ties_refused: Whether somebody put two items at the same rank: such rankings were left
    out.
private lists levels: Which epsilon a person chose: what is published is kept apart by it. If people
    let it depend on how they rank, it tells that.
private lists person_features: Features of people ({people_features}): they are taken as public,
    and what is published is kept apart by them.
private lists unnamed: A person with several rankings in the input: their losses add up, unbounded.
central comparison: A person with many answers: each answer is protected, all of them together are
    protected less. For k answers the loss is {grows}.
central comparison replace-one: Whether a particular answer was
    given, and the number of answers. || That an answer was given, and how many answers there are.
central user replace-one: Whether a particular person took part, and the
    number of participants. || That a person took part, and how many people did.
central user: Groups, such as a family or a class: for k people together the loss is {grows}.
central user -names: A person who appears under several user names: each name is protected as if it
    were a person.
central user names: A person who appears under more than {names} user names: only {names} of them
    are protected together. The operator states that people have no more.
found: Names that many people agree on, or one person with many accounts writes: any text can be
    made to appear, a name of a person or an address too. Texts that must not appear are denied
    beforehand (items.discover.deny).
-none: What holds for people in general: what most people answer says something about those who did
    not take part as well.
-none: Other releases from answers of the same people, {of_night}
-none found: What is public anyway: the rules by which items were found, the configuration, when the
    run took place, how long it took and how large its files are.
-none -found: What is public anyway: the list of items, the configuration, when the run took place,
    how long it took and how large its files are.
-none: The answers themselves, from anybody who can read the input or the confidential folder.
large: Much in practice: epsilon = {whole_epsilon} allows a factor of {large_odds}.
stream squares: On which night each person counted last, and how much of their allowance is used up,
    from anybody who can read the confidential folder while the stream runs.
stream metered -squares: On which night each person counted last, how many of their answers counted,
    and on which pairs of items lately, from anybody who can read the confidential folder while the
    stream runs.
stream -metered: On which night each person counted last, and how often, from anybody who can read
    the confidential folder while the stream runs.
stream: On which days this ran. Where schedule.empty is skip, a night without files is released like
    any other.
"""
THEOREM_TEXT = """
none: none: a release without noise has no guarantee
stream: hushrank's privacy/stream.py, after Choquette-Choo et al., (Amplified) banded matrix
    factorization (2023), and Kalinin and Lampert, Banded square root matrix factorization (2024);
    {of_noise}.
counts -stream: {algorithm}; {of_noise}.
top-list: Qiao, Su and Zhang, Oneshot differentially private top-k selection (2021), as pure
    differential privacy with the scale derived in hushrank.estimation.comparisons.noisy_counts. ||
    Qiao, Su and Zhang, Oneshot differentially private top-k selection (2021), as pure
    differential privacy with the scale derived in hushrank.estimation.comparisons.one_shot.
scores: {likelihood}{gaussian_likelihood}, {constants}.
scores-and-effects: {likelihood}, for comparisons with bounded covariates and with the constants
    that the proof in hushrank's privacy/covariate_perturbation.py needs.
private-sums randomised-response: Warner, Randomized response (1965); {XSC}, section 3.1 (each
    answer) and S.2 (all answers of a person).
private-sums laplace-response: {DMNS}, on each answer; {XSC}, Scenario V.
randomised-answers: Warner, Randomized response (1965); {NZ}, Section 5 (its baseline).
mallows: {RDP}, Algorithm 1 and Lemmas 1 and 2 (with erratum E4). || {RDP}, Algorithm 1 and Theorem
    1.
laplace-ranks: {RDP}, Lemma 3, with discrete Laplace noise.
random-pairs: Warner, Randomized response (1965), on pairs drawn without looking at the order; see
    hushrank's privacy/random_pairs.py
"""
ERRATUM_TEXT = """
win-counts user replace-one -stream: E1: Algorithm 3 as published calibrates its noise to L, the
    most answers of a person. But replacing them can lower some counts by L and raise others by L,
    so that noise gives 2 epsilon. The sensitivity used here is {moved_l}.
scores|scores-and-effects: E3: the proof is about the exact minimiser under continuous noise, and a
    computer has neither. How far its scores can be from that is bounded, and the bound is covered
    by noise of its own, paid for out of epsilon.
mallows: E4: Lemmas 1 and 2 of the paper print an exponent that is not the one of its Algorithm 1
    where agreeing pairs are summed. Algorithm 1 was used: epsilon / (m - 1) for each unordered pair
    of m items.
right-wrong-counts: E5: the script published with the paper adds noise only where a count is not
    zero, so a zero that stays zero gives people away; here zeros get noise as well. E6: Lemma 4.1
    prints the variance of the noise with the square root of the squared sensitivity, where its own
    proof needs the number itself; it is used here. The paper lets a person move {theirs} counts;
    the bound used here is {l2_squared:,} counts, each by one.
"""
FRAGMENTS_TEXT = """
[change]
public user: If one person had answered otherwise, about the same pairs of items
public comparison: If one comparison had ended otherwise
user replace-one: If all answers of one person were replaced by others
user add-remove: If one person were left out, or one more took part
comparison replace-one: If one answer were replaced by another
comparison add-remove: If one answer were left out, or one more given
[of_what]
stream: this night and all others of the stream together
: this release
[but_for]
delta: , but for a probability of {delta} (delta)
:
[whose]
user: how many people's answers fit the columns, items and words of the configuration
: how many rows fit the columns, items and words of the configuration
[whose_then]
user: how many people's rows mostly fit the columns, items and words of the configuration
: how many rows fit the columns, items and words of the configuration
[rest_delta]
delta: ~and all of delta, {delta},
:
[entry]
win-counts: win count
win-loss-counts: count of wins and every count of losses of an item
pair-counts: entry of the matrix of wins (how often one item beat another)
tie-counts: count of an outcome of a pair (one item won, the other won, they tied)
outcome-counts: count of wins of a pair that was compared (how often the first of its two items beat
    the second)
margin-counts: margin of a pair (in how many more rankings one item is above the other than below
    it), and the number of rankings
above-counts squares: count of pairs (in how many rankings one item is above another) (sums of
    squares and the number of rankings included, from which intervals know how much rankings differ)
above-counts: count of pairs (in how many rankings one item is above another)
net-sums: item's sum of items below it less items above it (sums of squares and the number of
    rankings included, from which intervals know how much rankings differ)
place-counts: count of places (in how many rankings an item is at a place)
precinct-counts: count of first places (in how many rankings an item is the best that counts, in
    each of {named_groups:,} public precincts{elsewhere}{in_districts} and in all together)
round-counts: count of a round (how many rankings have an item as the best of those left, or none of
    them)
right-wrong-counts complete: count of people who were right on one item and wrong on another, both
    ways on every pair of items
right-wrong-counts booklets: count of people who were right on one item and wrong on another, both
    ways on each of {edges:,} pairs of items that share one of the test's public booklets
right-wrong-counts: count of people who were right on one item and wrong on another, both ways on
    each of the graph's {edges:,} pairs, a public graph that was drawn without looking at an answer
sheet-totals: item's right less wrong answers, and every number of sheets by raw score
point-totals: number of sheets by the points of an item, and every number of sheets by raw score
[computed]
win-counts: the ranking, the shares and all intervals are computed from the noisy counts alone
win-loss-counts: the scores, the ranking and all intervals are computed from the noisy counts alone
pair-counts: the scores, the ranking and all intervals are computed from the noisy matrix alone
tie-counts: the scores, how often equals tie, the ranking and all intervals are computed from the
    noisy counts alone
outcome-counts: how often each pair was compared is public and released as it is, and the scores,
    the ranking and all intervals are computed from these two alone
above-counts squares: the scores and all intervals are computed from the noisy counts alone
above-counts|margin-counts|place-counts: the order and all intervals are computed from the noisy
    counts alone
net-sums: the scores and all intervals are computed from the noisy sums alone
round-counts: which item leaves and all else are computed from the noisy counts alone
right-wrong-counts: the difficulties, the ranking and all intervals are computed from the noisy
    counts alone
sheet-totals|point-totals: the difficulties, the ranking and all intervals are computed from these
    noisy numbers alone
precinct-counts: the totals, the table that adds up and all intervals are computed from the noisy
    counts alone
[elsewhere]
others: ~and elsewhere
:
[in_districts]
districts: , in each of {districts:,} districts
:
[cost]
gaussian: the budget
: epsilon
[others]
others: ~and for all other answers
:
[of_which]
stream: of all nights of the stream
: of this release
[across]
user stream: ~The bounds on a person's nights, and on their answers of a night, hold across all
    groups.
user: ~The bound on a person's answers holds across all groups.
:
[halves]
split: : a tie is half a win for each item
:
[sources]
exposures: the scores and these numbers
: the scores
[stated_what]
stated of_pairs: pair of items
: item
[parts]
drawn|look|beside: The scores' epsilon of {scores_epsilon} has three parts
: Epsilon has three parts
[whole]
drawn|look|beside: the scores' epsilon of {scores_epsilon}
: epsilon
[effects]
shared: {one_over_share} times both hold each effect
: the same hold each effect
[counted]
shared: , where what it moves of effects counts {share} times
:
[distinct]
distinct: , at most one on each pair of items
:
[cap]
cap: , with any one item in at most {c} of them
:
[and_cap]
cap: ~and with any one item in at most {c} of them
:
[burst_of]
refilled: , at most {burst} of them on the first night, and {refill} further ones a night
limited: , at most {burst} of them on the first night, and further ones as the allowance grows
    evenly to {rows_in_all} on the last night
:
[burst_of_squares]
refilled: , at most {burst} of it on the first night, and {refill} more a night
limited: , at most {burst} of it on the first night, and more as it grows evenly to {rows_in_all} on
    the last night
:
[apart_of_squares]
pair_apart: ~Nights on which answers of a person count are at least {pair_gap} nights apart.
:
[pair_once]
pair_apart: once in any {pair_gap} nights
: once a night
[which_night]
metered: a
: such a
[nights_of]
one_night: one night
: at most {participations} nights
[apart]
apart: , any two of them at least {gap} nights apart
:
[spread]
bands: , spread over {bands} nights with public weights,
:
[shown]
all_nights: all nights so far
night_alone: the night alone
: the last {window} nights
[in_groups]
groups -overlap: ~in a group, and {shown_of_all} in all groups together
:
[end]
longest: ; longer than {longest} items none counts.
: .
[grows]
rho: k * k times rho
delta: k times epsilon, and delta grows faster than that
: k times epsilon
[of_night]
stream: those of other streams among them: their losses add up. The budget ledger of the population
    keeps the account. The nights of this stream are covered together.
: other nights of this job among them: their losses add up. The budget ledger of the population
    keeps the account.
[an_answer]
per_user: is the person's, {interval}, divided by the number of their answers
range: lies between {low} and {high}
: is {high}
[is_one]
range: lies between {low} and {high}
: is {high}
[shuffle_theorem]
randomised-response: Balle, Bell, Gascon and Nissim 2019, the privacy blanket summed exactly
: Feldman, McMillan and Talwar 2021, Theorem III.1
[charged]
range: the larger one
: it
[pairs_of]
several_pairs: at most {pairs} pairs
one_pair: one pair
: {pairs} pairs
[pairs_were]
several_pairs: pairs were
one_pair: pair was
: {pairs} pairs were
[part]
several_pairs: epsilon divided by the number of them
one_pair: epsilon
: epsilon / {pairs}
[of_whose]
hide_items: items of the catalogue
: its items
[had]
hide_items: ranked any other items, in any order,
: put the same items in any other order
[formula]
laplace-ranks: epsilon floor(m^2 / 2) / (2m - 2)
: epsilon m / 2
[contests]
contests: , in which contests
:
[where]
at_source: where it was given
: before it was counted
[of_noise]
laplace: discrete Laplace noise after Ghosh, Roughgarden and Sundararajan, Universally
    utility-maximizing privacy mechanisms (2012)
: discrete Gaussian noise after Canonne, Kamath and Steinke, The discrete Gaussian for differential
    privacy (2020), Theorem 14 for zCDP, in place of Laplace noise; epsilon and delta by the theorem
    in hushrank's privacy/gaussian_profile.py
[algorithm]
win-counts comparison: {CCW}, Algorithm 2 (noisy win counts, one comparison protected)
win-counts: {CCW}, Algorithm 3 (noisy win counts, one person protected)
win-loss-counts: {DMNS}, on the wins and losses of each item
pair-counts: {DMNS}, on the matrix of wins
tie-counts: {DMNS}, on the matrix of wins and on the ties of each pair
outcome-counts: {DMNS}, on the matrix of wins, of which one entry a pair is secret
right-wrong-counts: {NZ}, Algorithm 2 and Lemma 4.1 (noisy pairwise differential measurements)
sheet-totals: {DMNS}, on right less wrong answers of each item and on sheets by raw score, with the
    sensitivity that hushrank's privacy/sensitivity.py proves
point-totals: {DMNS}, on sheets by the points of each item and on sheets by raw score, with the
    sensitivity that hushrank's privacy/response_sensitivity.py proves
trusted lists: {DMNS}, on counts of rankings, with the sensitivity that hushrank's
    privacy/ranking_sensitivity.py proves
[likelihood]
comparison: {CCW}, Algorithm 1 and Proposition 2.1 (one comparison protected)
: {CCW}, Section 3.2 and Proposition 3.1 (one person protected)
[gaussian_likelihood]
gaussian: , with Gaussian noise after Kifer, Smith and Thakurta, Private convex empirical risk
    minimization and high-dimensional regression (2012), Theorem 2
:
[constants]
paper: with the constants as published, or more noise where the proof needs it
: with the constants that its proof needs
[theirs]
complete: m (m - 1) = {ordered_pairs:,}
: 2 |E| = {two_edges:,}
[moved_l]
gaussian: {l2} (l2 norm)
: {l1} (l1 norm)
"""  # parts of sentences: the first line that applies; `~`: with a blank in front
PAPERS = {
    "CCW": "Cai, Chakraborty and Wang, Optimal differentially private ranking from pairwise"
    " comparisons (2025)",
    "DMNS": "Dwork, McSherry, Nissim and Smith, Calibrating noise to sensitivity in private data"
    " analysis (2006)",
    "XSC": "Xu, Sun and Cheng, Rate-optimal rank aggregation with private pairwise rankings",
    "RDP": "Xu, Sun and Cheng, Ranking differential privacy",
    "NZ": "Nguyen and Zhang, Optimal and private learning from human response data (2023)",
}
Rows = tuple[tuple[str, tuple[str, ...]], ...]  # tags, and a sentence in all its wordings


def rows_of(text: str) -> Rows:
    """The sentences of a block of text, each with its tags; further lines of one are indented."""
    joined = re.sub(r"\n    ", " ", text.strip())
    pairs = (line.partition(":")[::2] for line in joined.splitlines())
    return tuple(
        (tags.strip(), tuple(each.strip().replace("~", " ") for each in told.split("||")))
        for tags, told in pairs
    )


STATEMENT, NOT_PROTECTED, THEOREM, ERRATUM = map(
    rows_of, (STATEMENT_TEXT, NOT_PROTECTED_TEXT, THEOREM_TEXT, ERRATUM_TEXT)
)
FRAGMENTS: dict[str, Rows] = {
    block.partition("]")[0]: rows_of(block.partition("]")[2])
    for block in FRAGMENTS_TEXT.split("[")[1:]
}


class Parts(dict[str, Any]):
    """What stands in the sentences: numbers, and parts of sentences by what applies."""

    def __init__(self, values: Document, tags: set[str]) -> None:
        super().__init__(values | PAPERS)
        self.tags = tags

    def __missing__(self, name: str) -> str:
        return next(said(self, FRAGMENTS[name]))[0]


def said(parts: Parts, rows: Rows) -> Iterator[tuple[str, ...]]:
    """The sentences that apply, each in all wordings that versions of hushrank have had."""
    for wanted, wordings in rows:
        tags = (each.split("|") for each in wanted.split())
        if all(
            any((one.lstrip("-") in parts.tags) != one.startswith("-") for one in each)
            for each in tags
        ):
            yield tuple(text.format_map(parts) for text in wordings)


def digits(value: Any) -> str:
    """A number in a sentence: six digits at most."""
    return f"{float(value):.6g}"


def odds_of(epsilon: float) -> str:
    """e^epsilon in a sentence."""
    return f"{math.exp(epsilon):.3g}" if epsilon < 10 else f"10^{epsilon / math.log(10):.1f}"


def variance_of(scale: float, kind: str) -> float:
    """Variance of discrete Laplace noise; an upper bound [CKS20] of that of Gaussian noise."""
    if kind == "gaussian" or scale == 0:
        return scale**2
    return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2


def variance_in(law: Document) -> float:
    """Variance of the noise of a draw."""
    return (
        variance_of(float(fraction(law["scale"])), law["kind"]) * float(fraction(law["step"])) ** 2
    )


def kernel_of(coefficients: Sequence[int], window: int | None, nights: int) -> list[float]:
    """How much of the noise of each night before is in what a night of a stream shows: a power
    series, that of the nights that are shown over that of the encoder [FHU22]."""
    kernel: list[float] = []
    for night in range(nights):
        mixed = zip(coefficients[1:], reversed(kernel), strict=False)
        own = float(window is None or night < window)
        kernel.append((own - sum(a * b for a, b in mixed)) / coefficients[0])
    return kernel


def shown_variance(law: Document, told: Document, night: int) -> float:
    """Variance of the noise in a count that a night (from 1) of a stream shows."""
    kernel = kernel_of(told["coefficients"], told["window"], night)
    scale = float(fraction(law["scale"]))
    return variance_of(scale, law["kind"]) * sum(each**2 for each in kernel)


def parts_of(certificate: Document, release: Document) -> Parts:
    """What the sentences of a release are made of."""
    guarantee, bounds = certificate["guarantee"], certificate["domain"]["bounds"]
    kind, local = release["released"]["kind"], guarantee["unit"] == "local"
    if guarantee["epsilon"] == "inf":
        return Parts({}, {"none"})
    epsilon, delta = (float(exactly(guarantee[name])) for name in ("epsilon", "delta"))
    draw = next(each for each in certificate["draws"] if derivation_of(each) not in BEFORE)
    values: Document = {
        "epsilon": digits(epsilon),
        "whole_epsilon": digits(epsilon),
        "people_features": release["privacy"]["parameters"].get("features_of_people", ""),
        "delta": digits(delta),
        "odds": odds_of(epsilon),
        "large_odds": odds_of(epsilon),
        "sure": digits(round(100 / (1 + math.exp(-min(epsilon, 700))), 2)),
        "L": bounds["max_contributions"],
        "c": bounds["per_item_cap"],
        "names": bounds.get("names_per_person"),
        "overlap": "one" if (many := bounds.get("groups_per_answer")) == 1 else many,
        "longest": release["privacy"]["parameters"].get("longest_ranking", 0),
    }
    tags = {guarantee["unit"], kind, str(guarantee["adjacency"])}
    parts = Parts(values, tags | tags_of(draw, certificate, release))
    parts.tags.update(["large"] * (epsilon > 10) + ["delta"] * (delta > 0))
    for tell in (tell_local,) if local else (tell_look, tell_names, tell_draw, tell_stream):
        tell(parts, draw, certificate, release)
    if kind == "scores":
        tell_scores(parts, draw, certificate, release)
    if kind == "scores-and-effects":
        tell_effects(parts, draw, certificate)
    return parts


def tags_of(draw: Document, certificate: Document, release: Document) -> set[str]:
    """What is so of a release, in the words that stand before the sentences."""
    domain, released, kind = certificate["domain"], release["released"], release["released"]["kind"]
    bounds, settings = domain["bounds"], certificate["rows"]["settings"]
    facts = {each["fact"] for each in certificate["public_facts"]}
    local, lists = certificate["guarantee"]["unit"] == "local", kind in LISTS
    longest = release["privacy"]["parameters"].get("longest_ranking", 0)
    layout, refuses = (settings.get("layout"), settings.get("ties")), [("long", "refuse")]
    if "items_at_one_rank" in release["privacy"]["parameters"]:  # before, only long ones said it
        refuses.append(("wide", "refuse"))
    flags = {
        "central": not local,
        "private": local,
        "trusted": not local,
        "lists": lists,
        "counts": not local and kind not in ("scores", "scores-and-effects", "top-list"),
        "rho": certificate["guarantee"]["rho"] is not None,
        "multiline": bool(settings.get("multiline")),
        "names": (bounds.get("names_per_person") or 1) > 1,
        "distinct": bounds["distinct_pairs"],
        "cap": bounds["per_item_cap"] is not None,
        "bounded": bounds["max_contributions"] is not None,
        "by_weights": bounds["bounding"] == "weights",
        "weighted": is_weighted(certificate),
        "max_weight": bounds["max_weight"] is not None,
        "split": domain["ties"] == "split",
        "groups": bool(domain["groups"]),
        "overlap": bounds.get("groups_per_answer") is not None,
        "others": domain["other_rows"],
        "public": is_public(certificate, release),
        "balanced": kind in DESIGNED and settings.get("design") == "balanced",
        "chance": kind in DESIGNED and settings.get("design") == "random",
        "at_source": draw.get("at_source", False),
        "unnamed": NAMELESS in facts,
        "one_list": bounds["max_contributions"] == 1,
        "person_features": bool(settings.get("person_features")),
        "contests": (settings.get("columns") or {}).get("contest") is not None,
        f"unlisted_{settings.get('unlisted')}": True,
        "ties_refused": layout in refuses and not draw.get("at_source"),
        "longest": longest < domain["items"],
        "complete": released.get("pairs") is None,
        "booklets": settings.get("booklets") is not None,
        "bands": released.get("by_band") is not None,
        f"missing_{settings.get('missing') or 'unseen'}": "missing" in settings,
        "squares": released.get("squares") is not None,
        "districts": released.get("districts") is not None,
    }
    return {name for name, on in flags.items() if on}


LISTS = ("private-rankings", "private-pairs", *COUNTED_LISTS)
DESIGNED = ("win-counts", "win-loss-counts")  # where results rest on who was asked about whom


def tell_look(parts: Parts, draw: Document, certificate: Document, release: Document) -> None:
    """Tell the reader of the look at the rows that came first."""
    looks = [each for each in certificate["draws"] if derivation_of(each) == "votes_sensitivity"]
    rest = exactly(certificate["guarantee"]["epsilon"])
    if (beside := cost_of_queries(certificate)) > 0:
        parts.tags.add("beside")
        rest -= beside
        told = [each["what"] for each in certificate["draws"] if derivation_of(each) in QUERIES]
        parts |= {"beside": digits(beside), "beside_told": "; ".join(told), "rest": digits(rest)}
    if looks:
        parts.tags.update(["look"] + ["asked"] * bool(asked := release["look"].get("people")))
        parts.tags.update(["unlisted"] * counts_items(release))
        took = exactly(looks[0]["cost"]["epsilon"])
        rest -= took
        parts["look"], parts["rest"], parts["asked"] = digits(took), digits(rest), asked
    parts |= {"own_epsilon": digits(rest), "left": float(rest)}


def tell_names(parts: Parts, draw: Document, certificate: Document, release: Document) -> None:
    """Of names of items that were drawn first."""
    for each in certificate["draws"]:
        if derivation_of(each) == OF_NAMES:
            parts.tags.add("found")
            parts["names_rho"] = digits(fraction(each["cost"]["rho"]))
            parts["names_delta"] = digits(fraction(each["cost"]["delta"]))
            parts["most_names"] = each["inputs"]["c"]
            parts["ranking_rho"] = digits(fraction(draw["cost"]["rho"]))


def tell_draw(parts: Parts, draw: Document, certificate: Document, release: Document) -> None:
    """Tell the reader of noise on counts, or inside an optimisation."""
    optimised = derivation_of(draw) in OPTIMISED
    law, scale = draw["laws"][0] if optimised else draw["law"], draw.get("scale")
    parts.tags.add(law["kind"])
    parts |= {
        "law": law["kind"].capitalize(),
        "scale": digits(fraction(scale or law["scale"])),
        "deviation": digits(math.sqrt(variance_in(law))),
        "named_groups": len(certificate["domain"]["groups"]),
    }
    if optimised:
        return
    b, released, norms = bundle_of(certificate), release["released"], draw["sensitivity"]
    n, edges = b.items, graph_sizes(released.get("pairs"))[0] or 0
    weights = released.get("weights") or {}
    if {*weights.values()} - {1}:
        parts.tags.add("multiplied")
    parts |= {
        "l1": norms["l1"],
        "l2": digits(math.sqrt(norms["l2_squared"])),
        "l2_squared": norms["l2_squared"],
        "l1_over_epsilon": digits(norms["l1"] / parts["left"]),
        "rho": digits(fraction(draw["cost"]["rho"] or "0/1")),
        "districts": len(released.get("districts") or ()),
        "units": b.weight * UNIT,
        "max_weight": f"{float(fraction(certificate['domain']['bounds']['max_weight'] or 1)):g}",
        "stated": release["privacy"]["parameters"].get("public_graph_statement"),
        "edges": edges,
        "two_edges": 2 * edges,
        "ordered_pairs": n * (n - 1),
        "k": len(released.get("items") or ()),
        "products": ", ".join(f"{part} times {weight:,}" for part, weight in weights.items()),
    }


def tell_stream(parts: Parts, draw: Document, certificate: Document, release: Document) -> None:
    """Tell the reader of the nights of a stream."""
    told, terms = release.get("stream"), certificate["domain"]["stream"]
    if told is None or terms is None:
        return
    law, bands = draw["law"], len(told["coefficients"])
    groups, nights, window = bundle_of(certificate).groups, terms["nights"], terms["window"]

    def last(scale: float, kind: str) -> str:
        kernel = kernel_of(told["coefficients"], window, nights)
        variance = variance_of(scale, kind) * sum(each**2 for each in kernel)
        if kind == "laplace" and sum(map(bool, kernel)) <= FEW_DRAWS and variance > 1:
            variance = variance_of(math.sqrt(variance / 2 + 1 / 12), kind)
        return digits(math.sqrt(variance))

    scale = float(fraction(law["scale"]))
    of_all = math.sqrt(groups * variance_of(scale, law["kind"]))
    norms = draw["sensitivity"]
    metered = terms.get("participation") or {}
    rows, pair_gap = metered.get("rows") or metered.get("squares", 1), metered.get("pair_gap")
    pair_gap, burst = pair_gap or metered.get("gap", 1), metered.get("burst", 1)
    often, gap = terms["participations"] or 0, terms["gap"] or 0
    flags = {
        "stream": True,
        **{"metered": bool(metered), "limited": burst < rows, "pair_apart": pair_gap > 1},
        **{"refilled": metered.get("refill") is not None, "squares": "squares" in metered},
        "one_night": often == 1,
        "apart": often > 1 and gap > 1,
        "bands": bands > 1,
        "all_nights": window is None,
        "night_alone": window == 1,
    }
    parts.tags.update(name for name, on in flags.items() if on)
    parts |= {
        **{name: terms[name] for name in ("nights", "participations", "gap", "window")},
        **{"metered_rows": f"{rows:,}", "rows_in_all": rows, "pair_gap": pair_gap, "burst": burst},
        "refill": f"{float(fraction(metered.get('refill') or 0)):g}",
        "bands": bands,
        "shown_deviation": last(scale, law["kind"]),
        "shown_of_all": last(of_all, "gaussian") if groups > 1 else "",
        "l1": digits(norms["l1"] / 2**20),
        "l2": digits(math.sqrt(norms["l2_squared"]) / 2**20),
    }


FEW_DRAWS = 30  # of Laplace noise, whose sum hushrank takes for Laplace noise; more for Gaussian


def tell_scores(parts: Parts, draw: Document, certificate: Document, release: Document) -> None:
    """Tell the reader of scores by an optimisation, and of how often items were compared."""
    stated = release["privacy"]["parameters"].get("stated_exposures")
    drawn = [each for each in certificate["draws"] if "exposures_" in each["derivation"]]
    flags = {
        "stated": stated is not None,
        "of_pairs": stated == "pairs",
        "exposures": release["released"]["exposures"] is not None and stated is None,
        "drawn": bool(drawn),
        "paper": draw["constants"] == "paper",
    }
    parts.tags.update(name for name, on in flags.items() if on)
    parts |= {**of_optimum(draw), "link": draw["loss"]["link"]}
    parts["stated"] = release["privacy"]["parameters"].get("public_graph_statement")
    for each in drawn:
        epsilon, l1 = float(fraction(each["cost"]["epsilon"])), each["sensitivity"]["l1"]
        parts |= {
            "exposures_epsilon": digits(epsilon),
            "exposures_scale": digits(fraction(each["law"]["scale"])),
            "exposures_deviation": digits(math.sqrt(variance_in(each["law"]))),
            "exposures_l1": l1,
            "exposures_ratio": digits(l1 / epsilon),
        }


def of_optimum(draw: Document) -> Document:
    """Numbers of noise in an optimisation, for sentences."""
    scale, sensitivity = (float(fraction(draw[name])) for name in ("scale", "sensitivity"))
    return {
        "ridge": digits(fraction(draw["ridge"])),
        "sensitivity": digits(sensitivity),
        "pull": digits(sensitivity / scale),
        "determinant": digits(fraction(draw["determinant_epsilon"])),
        "last_digits": digits(fraction(draw["cover"]["epsilon"])),
        "cover_deviation": digits(math.sqrt(variance_in(draw["cover"]["law"]))),
        "scores_epsilon": digits(fraction(draw["cost"]["epsilon"])),
    }


def tell_effects(parts: Parts, draw: Document, certificate: Document) -> None:
    """Tell the reader of effects of covariates."""
    told = [each for each in certificate["draws"] if each["derivation"].endswith("covariate_mle")]
    share = float(fraction(draw["share"]))
    if share < 1:
        parts.tags.add("shared")
    parts |= {
        **of_optimum(draw),
        "share": digits(share),
        "one_over_share": digits(1 / share),
        "deviations": ", ".join(digits(4 * math.sqrt(variance_in(each["law"]))) for each in told),
        "information": digits(sum(float(fraction(each["cost"]["epsilon"])) for each in told)),
    }


def tell_local(parts: Parts, draw: Document, certificate: Document, release: Document) -> None:
    """Tell the reader of answers, rankings and tests that were privatised one by one."""
    released, parameters = release["released"], release["privacy"]["parameters"]
    low, high = ends_of(draw)
    m, split = parts["longest"], draw.get("budget") == "per_user"
    whole = (
        high * (m * m // 2) / (2 * m - 2) if draw["mechanism"] == "laplace-ranks" else high * m / 2
    )
    after, pairs = parameters.get("epsilon_of_an_answer_after_shuffling"), draw.get("pairs", 0)
    met = released.get("w", 0) is None or any(map(any, released.get("w") or ()))
    ordered = released.get("presentation") is not None  # its sums are of few people
    flags = {
        draw["mechanism"]: True,
        "per_user": split,
        "range": low < high,
        "ordered": ordered,
        "shuffled": met and not split and low == high and not ordered,
        "gained": after is not None,
        "chosen": "mechanism_chosen" in parameters,
        "one_pair": pairs == 1,
        "levels": "levels_of_epsilon" in parameters,
        "several_pairs": len({each["pairs"] for each in draw.get("levels") or ()}) > 1,
        "hide_items": draw.get("hide") == "items",
    }
    parts.tags.update(name for name, on in flags.items() if on)
    if released["kind"] != "randomised-answers":
        parts["odds"] = odds_of(high)
    parts |= {
        "low": digits(low),
        "high": digits(high),
        "interval": digits(low)
        if digits(low) == digits(high)
        else f"{digits(low)} to {digits(high)}",
        "person": digits(parts["whole_epsilon"]),
        "whole_ranking": digits(whole),
        "whole_odds": odds_of(whole),
        "pairs": pairs,
        "chosen": parameters.get("mechanism_chosen"),
        "shuffled": digits(after or 0),
        "shuffle_delta": digits(parameters.get("delta_after_shuffling", 0)),
        "reports": parameters.get("fewest_answers_to_a_pair"),
    }


def ends_of(draw: Document) -> tuple[float, float]:
    """The smallest and the largest epsilon that is accepted."""
    if draw["mechanism"] == "random-pairs":
        levels = draw.get("levels") or [draw]
        found = list(dict.fromkeys((levels[0]["epsilon"], draw["epsilon"])))
    elif "epsilons" in draw:
        found = draw["epsilons"]
    else:
        table = draw.get("tables") or draw["thresholds"]
        found = [each["epsilon"] for each in table if each.get("answers", 1) == 1]
    listed = {each["answers"] for each in draw.get("thresholds", ())} or {1}
    table = draw.get("tables") or draw.get("thresholds") or found
    if not 1 <= len({*found}) == len(found) <= 2 or len(table) != len(found) * len(listed):
        raise Wrong("laws are told at the smallest and the largest epsilon, and each once")
    return float(fraction(found[0])), float(fraction(found[-1]))


def check_words(certificate: Document, release: Document, say: Findings) -> None:
    """That the sentences of the guarantee follow from the numbers in order, and none is missing."""
    privacy, parts = release["privacy"], parts_of(certificate, release)
    erratum = [] if privacy["erratum"] is None else [privacy["erratum"]]
    texts = {
        "statement": (STATEMENT, privacy["statement"]),
        "not_protected": (NOT_PROTECTED, privacy["not_protected"]),
        "theorem": (THEOREM, [privacy["theorem"]]),
        "erratum": (ERRATUM, erratum),
    }
    for name, (rows, sentences) in texts.items():
        wanted = list(said(parts, rows))
        if {"trusted", "lists"} <= parts.tags:  # people's answers are rankings here
            wanted = [
                tuple(
                    text.replace("answers", "rankings").replace("An answer ", "A ranking ")
                    for text in each
                )
                for each in wanted
            ]
        for sentence, right in itertools.zip_longest(sentences, wanted):
            if right is None or sentence not in right:
                told, follows = sentence or "nothing", (right or ("nothing",))[0]
                same = len(os.path.commonprefix([told, follows]))
                start = told.rfind(" ", 0, max(0, same - 20)) + 1
                text = f"{name}: {short(told[start:])!r} is said, and from the numbers follows"
                say.check(False, wrong=f"{text} {short(follows[start:])!r}")
                break
        else:
            say.check(True, f"{name} says what follows from the numbers, word for word")


# 10. What is not proved


NOT_PROVED = (
    "That the bounds of `domain` were enforced, and that rows were read as `rows` says.",
    "That the random bits came from the operating system, and that nobody kept them.",
    "That the code that `software` names is the code that ran, on a machine that nobody else read.",
    "That exact counts and rows were seen by nobody and deleted.",
    "That the public facts are public, and were not made from the answers.",
    "That nothing else was taken for public, and that `rows` has the settings of the run.",
    "That the released numbers were drawn once: who draws often and keeps the best breaks it.",
    "That the derivations are right: a person has to read them, and may check small cases.",
    "That numbers which are called noisy are noisy: exact ones look alike.",
    "That intervals, ranks and chances follow from what was drawn, and what the operator's own"
    " words mean: names, warnings, reasons.",
    "What else report.html shows: its other words, drawings and scripts.",
)
IF_PRIVATISED = (
    "That answers which came privatised were privatised by this law where they were given."
)
IF_COUNTED = (
    "That the ledger is the only one of these people, and that nobody put an older copy back"
    " before a line was added; lines after this release are not covered."
)


RULES = (  # how bytes become rows, in words
    "A row is a comparison of two different items of the catalogue, with a result that is one of"
    " the words or signs of the settings.",
    "A row holds a ranking of items of the catalogue, or one item of it; a ranking with an item"
    " twice, with too many items, or outside the settings counts nowhere.",
    "A row is one person's answer to one item of the catalogue, or to all; of several answers of a"
    " person to one item those count that `duplicates` of the settings names.",
    "Of CSV files a record ends where its line ends, so a damaged row is damaged alone.",
    "Of CSV files a quoted field may span lines: a row with an open quote swallows the rows after"
    " it, up to 1 MiB, which no noise covers.",
    "A row that breaks a rule is moved to the confidential folder and counts nowhere.",
    "A row that breaks a rule stops the run before anything is drawn or spent.",
    "What a row means follows from its own bytes and from the settings above alone; no other row,"
    " and no file besides the catalogue, changes it.",
    "A row on a pair that was not asked about breaks a rule.",
    "An answer in more groups than groups_per_answer counts in the first of them, in the order of"
    " the list; every answer counts once in the whole.",
    "Rows of one user, pair and event that differ in their groups alone are one answer, in all of"
    " these groups.",
    "Rows of one user, pair and event in different groups contradict each other.",
    "Rows of one user, pair and event count once; contradicting ones never.",
    "Each cell of a column of input.columns.pairs is an answer of its own; an empty one or NA is"
    " none.",
    "Of a person's rows at most max_contributions count, under the other bounds too; which, secret"
    " random bits decide, never what was answered.",
    "All rows of a person count, with a weight that falls with their number, so that together they"
    " add no more than max_contributions rows do.",
)
SPELLED = (
    r"(?s)(?:Column|Each column) .*"
    r" (should hold .*\. Rows with anything else (make the run fail|are excluded)"
    r"|holds .*\. A row with another word (fails the run|is set aside))\."
)
FREE_OF_COST = (  # what is computed from the draws alone
    "Everything in the release beside what `draws` lists: the ranking, scores, ranks, intervals,"
    " chances, groups, warnings and figures. It is computed from the draws and from public facts,"
    " by no further look at the rows, and costs nothing.",
    "What this night shows is computed from the draws of all nights of the stream so far.",
    "The report shows the balance of the ledger when it was written, which is public.",
)


def check_texts(certificate: Document, say: Findings) -> None:
    """That the other sentences of the certificate are some that the format has."""
    texts = {
        "rows.rules": (certificate["rows"]["rules"], RULES),
        "post_processing": (certificate["post_processing"], FREE_OF_COST),
        "not_proved": (certificate["not_proved"], (*NOT_PROVED, IF_PRIVATISED, IF_COUNTED)),
    }
    for name, (sentences, known) in texts.items():
        for each in sentences:
            mine = each in known or (name == "rows.rules" and re.fullmatch(SPELLED, each))
            say.check(bool(mine), wrong=f"{name}: format {FORMAT} has no sentence {short(each)!r}")


def say_what_is_open(certificate: Document, release: Document, say: Findings) -> None:
    """What no program can see in the files; a certificate cannot take a word of it away."""
    privatised = any(draw.get("at_source") for draw in certificate["draws"])
    own = [IF_PRIVATISED] * privatised + [IF_COUNTED] * bool(certificate["ledger"])
    for text in (*NOT_PROVED, *own):
        say.open(text)
    if certificate.get("audit"):
        say.open("what the audit says: its attacks were run by whoever wrote the certificate")


UNREADABLE = (
    *(ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError),
    *(AssertionError, RecursionError, csv.Error),
)


def verify(
    files: Files, ledger: Given = None, key: Given = None, anchor: Given = None, terms: Given = None
) -> Findings:
    """Check the files of a release, by name.

    At hand may be its ledger, the keys (PEM) that sign both, an anchor's heads, the terms' keys.
    """
    say, readable = Findings(), False  # whether both documents have their form
    try:
        certificate, release = (read_json(files[name]) for name in ("certificate.json", NAMES[0]))
    except KeyError as error:
        say.check(False, wrong=f"{error.args[0]} is missing: this is no release with a certificate")
        return say
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        say.check(False, wrong=f"certificate.json or release.json is no JSON object: {error}")
        return say
    version = certificate.get("hushrank_certificate")
    if type(version) is int and version > FORMAT:
        newer = f"the release is of format {version}, and this program knows format {FORMAT}"
        say.lines.append(("newer", f"{newer}: get a newer verifier; nothing was judged"))
        return say
    checks: dict[str, Callable[[], object]] = {
        "certificate.json": lambda: check_form(certificate, release, say),
        "guarantee": lambda: check_claim(certificate, release, say),
        "draws": lambda: check_draws(certificate, release, say),
        "public facts": lambda: check_public(certificate, release, say),
        "numbers": lambda: check_numbers(certificate, release, say),
        "words": lambda: check_words(certificate, release, say),
        "sentences": lambda: check_texts(certificate, say),
        "ledger": lambda: check_ledger(certificate, ledger, say, terms),
        "signatures": lambda: check_signatures(files, ledger, key, say),
        "anchor": lambda: check_anchor(certificate, ledger, anchor, key, say),
        "files": lambda: check_digests(files, certificate, say),
        "scores": lambda: check_scores(release, say, bundle_of(certificate).summed),
        "ranks": lambda: check_order(release, say, bundle_of(certificate).summed),
        "ranking.csv": lambda: check_table(files, release, say),
        "report.html": lambda: check_report(files, release, say),
        "not_proved": lambda: say_what_is_open(certificate, release, say),
    }
    for name, check in checks.items():
        if not (say.good or readable or name == "files"):
            continue  # numbers that cannot be: nothing else can be computed from them
        try:
            check()
        except Wrong as error:
            say.check(False, wrong=f"{name}: {error}")
        except UNREADABLE as error:
            say.check(False, wrong=f"{name}: cannot be read as a certificate means it ({error!r})")
        readable = readable or (name == "certificate.json" and say.good)
    return say


# 11. Tools


DIGITS = 80  # of e^x and logarithms, which `decimal` rounds correctly
LARGEST = 10**5  # larger exponents are refused: nobody needs them, and they take long
_PI = int("31415926535897932384626433832795028841971693993751058209749445923078164062862089986280")
PI = Fraction(_PI, 10**85), Fraction(_PI + 1, 10**85)


FLOOR, CEILING = (
    decimal.Context(DIGITS, way, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
    for way in (decimal.ROUND_FLOOR, decimal.ROUND_CEILING)
)
EXACT = decimal.Context(decimal.MAX_PREC, None, decimal.MIN_EMIN, decimal.MAX_EMAX)


def decimals(x: Fraction) -> tuple[Decimal, Decimal]:
    """`x` with `DIGITS` digits, rounded down and up."""
    low, high = (way.divide(*map(Decimal, x.as_integer_ratio())) for way in (FLOOR, CEILING))
    return low, high


def down(x: Fraction) -> Fraction:
    """`x` rounded down."""
    return Fraction(decimals(x)[0])


def up(x: Fraction) -> Fraction:
    """`x` rounded up."""
    return Fraction(decimals(x)[1])


def around(function: str, x: Fraction) -> Bounds:
    """Bounds of a function of `decimal` that rises and is half a digit off at most; 0 is exact."""
    ends = zip((FLOOR, CEILING), decimals(x), strict=True)
    low, high = (getattr(way, function)(end) for way, end in ends)
    return Fraction(low and FLOOR.next_minus(low)), Fraction(high and CEILING.next_plus(high))


def exp_bounds(x: Fraction) -> Bounds:
    """Bounds of e^x."""
    if x > LARGEST:
        raise ValueError(f"e^{float(x):g} is beyond what is computed here")
    return around("exp", x) if x >= -LARGEST else (NONE, exp_bounds(Fraction(-LARGEST))[1])


def log_bounds(x: Fraction) -> Bounds:
    """Bounds of the natural logarithm of x > 0."""
    if x <= 0:
        raise ValueError("a logarithm is of a number above 0")
    return around("ln", x)


def sqrt_bounds(x: Fraction) -> Bounds:
    """Bounds of the square root of x >= 0."""
    low, high = around("sqrt", x)
    return max(NONE, low), high


def density_bounds(x: Fraction) -> Bounds:
    """Bounds of the normal density e^(-x^2 / 2) / sqrt(2 pi)."""
    low, high = exp_bounds(-x * x / 2)
    return down(low / sqrt_bounds(2 * PI[1])[1]), up(high / sqrt_bounds(2 * PI[0])[0])


@functools.lru_cache(1024)
def tail_bounds(x: Fraction) -> Bounds:
    """Bounds of P(normal > x) = 1/2 - density(x) (x + x^3 / 3 + x^5 / (3 5) + ..), falling in x."""
    if x < 0:
        low, high = tail_bounds(-x)
        return 1 - high, 1 - low
    if x > 14:  # where the series would lose its digits
        density = density_bounds(x)
        return down(density[0] * x / (1 + x * x)), up(density[1] / x)
    return series_bounds(up(x))[0], series_bounds(down(x))[1]


def series_bounds(x: Fraction) -> Bounds:
    """The same by the series, whose terms fall by half each once n > 2 x^2."""
    density, n, half = density_bounds(x), 1, Fraction(1, 2)
    low = high = term_low = term_high = x
    while n <= 2 * x * x or term_high > Fraction(1, 10**DIGITS):
        n += 2
        term_low, term_high = down(term_low * x * x / n), up(term_high * x * x / n)
        low, high = low + term_low, high + term_high
    return half - up(density[1] * (high + term_high)), half - down(density[0] * low)


# Ed25519 (RFC 8032, 5.1): points (X, Y, Z, T) of -x^2 + y^2 = 1 + d x^2 y^2 modulo P.
P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int, int, int]


def add(a: Point, b: Point) -> Point:
    """The sum of two points."""
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    p, q, r, s = f - e, h - g, h + g, f + e
    return p * q % P, r * s % P, q * r % P, p * s % P


def multiplied(number: int, point: Point) -> Point:
    """A point added to itself so many times."""
    found = (0, 1, 1, 0)
    while number:
        if number & 1:
            found = add(found, point)
        number, point = number >> 1, add(point, point)
    return found


def point_of(coded: bytes) -> Point:
    """The point that 32 bytes stand for: y, and the last bit of x."""
    number = int.from_bytes(coded, "little")
    odd, y = number >> 255, number & (2**255 - 1)
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P or (odd and not x) or len(coded) != 32:
        raise ValueError("these bytes are no point of the curve")
    x = P - x if x % 2 != odd else x
    return x, y, 1, x * y % P


BASE = point_of(bytes.fromhex("58" + 31 * "66"))


def signed_by(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the owner of a key signed a message: S B = R + SHA-512(R, key, message) A."""
    s = int.from_bytes(signature[32:64], "little")
    if len(signature) != 64 or s >= ORDER:
        return False
    try:
        r, a = point_of(signature[:32]), point_of(key)
    except ValueError:
        return False
    digest = hashlib.sha512(signature[:32] + key + message).digest()
    challenge = int.from_bytes(digest, "little") % ORDER
    left, right = multiplied(s, BASE), add(r, multiplied(challenge, a))
    return all((left[i] * right[2] - right[i] * left[2]) % P == 0 for i in (0, 1))


def read_file(path: Path) -> bytes:
    """The content of a regular file; a FIFO would be waited for, and a device may have no end."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, "is no regular file; name the file itself", str(path))
    if found.st_size > MOST_BYTES:
        raise OSError(0, f"is larger than {MOST_BYTES >> 30} GiB, so it is none", str(path))
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        return file.read()


def read_folder(folder: Path) -> dict[str, bytes]:
    """The files of a release in a folder; a link could show something else tomorrow."""
    found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for path in found:
        if path.is_symlink():
            raise OSError(0, "is a link; put the file itself there", str(path))
    return {path.name: read_file(path) for path in found if path.is_file()}


def read_anchor(place: Path) -> bytes:
    """The heads of an anchor: a file; a folder of a git repository that holds the file; or a folder
    with copies of its objects, whose names sort as they do."""
    if not place.is_dir():
        return read_file(place)
    in_git = place / "hushrank-anchor.jsonl"
    objects = [in_git] if in_git.exists() else sorted(place.glob("*.json"))
    return b"".join(map(read_file, objects))


MOST_BYTES = 1 << 32  # most bytes of a file of a release, a ledger or an anchor

VERDICTS = {
    0: "Nothing is wrong.",
    1: "THIS RELEASE IS NOT WHAT IT CLAIMS TO BE.",
    5: "NOT JUDGED: this release is of a newer format. Get a newer verifier.",
}


def main() -> int:
    """Check the release that the command line names; 0: nothing is wrong, 1: something is, 5: it
    was not judged, for its format is newer than this program."""
    parser = argparse.ArgumentParser(description="Check a release of hushrank.")
    parser.add_argument("folder", type=Path, help="folder with release.json and certificate.json")
    parser.add_argument("--ledger", type=Path, help="the ledger that counts the release")
    parser.add_argument("--public-key", type=Path, help="public key (PEM) that signs both")
    parser.add_argument("--anchor", type=Path, help="what an anchor knows of the ledger")
    parser.add_argument("--terms-key", type=Path, help="public key (PEM) of who may set the budget")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    try:
        files = read_folder(given.folder)
        others = sorted({path.name for path in given.folder.iterdir()} - files.keys())
        named = (given.ledger, given.public_key, given.terms_key)
        ledger, key, officer = (each and read_file(each) for each in named)
        anchor = given.anchor and read_anchor(given.anchor)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    found = verify(files, ledger, key, anchor, officer)
    if others:
        found.open(f"not looked at, for they are hidden or no files: {short(', '.join(others))}")
    if given.json:
        lines = [{"finding": kind, "text": text} for kind, text in found.lines]
        told = {"good": found.good, "judged": found.judged, "findings": lines}
        print(json.dumps(told, ensure_ascii=False, indent=1))
    else:
        for kind, text in found.lines:
            print(f"{kind:5}  {text}")
        print(VERDICTS[found.code])
    return found.code


if __name__ == "__main__":
    sys.exit(main())
