"""A method is one module: what this one says of itself is all that it takes to be used.

`docs/adding_a_mechanism.md` points here. The method ranks by noisy counts of lost comparisons, a
mirror image of `noisy-counts`, and brings a released record of its own, with its figure, its entry
in the certificate and its part in an audit; a second one chooses between methods.
"""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import textwrap
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import hushrank.flows
from hushrank.estimation.common.central_noise import calibrate_win_counts, release_win_counts
from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.matrices import WinCounts
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.flows.config.check import check_config
from hushrank.flows.config.method import MethodFacts, Problems, Sections
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.config.yaml_file import read_yaml
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods import registry
from hushrank.flows.methods.base import (
    Arrays,
    Attacked,
    Choice,
    Conclusion,
    Method,
    Terms,
    attacked_counts,
)
from hushrank.flows.methods.counts import noisy_counts
from hushrank.flows.methods.draws import Draw
from hushrank.flows.methods.formulas import Restated, noise_of_counts
from hushrank.flows.methods.reductions import CountedMethod
from hushrank.flows.methods.registry import METHODS, load_config, methods_in
from hushrank.flows.release.release import Release, load_release
from hushrank.flows.release.released import KINDS, Figure, ReleasedRecord
from hushrank.flows.release.scale import Scale
from hushrank.flows.report.figures import figures_of
from hushrank.flows.statement.mechanism import CountMechanism, CountWords
from hushrank.flows.statement.record import count_record
from hushrank.flows.trust.audit.audit import reduce_rows
from hushrank.flows.trust.audit.central import central_parts
from hushrank.flows.trust.certificate.model import load_certificate
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.privacy.randomness import RandomBits, system_bits
from hushrank.privacy.units import NoiseKind, Unit

LOSSES = CountWords(
    entry="count of lost comparisons",
    computed="ranking, shares and intervals are computed from the noisy counts alone",
    algorithm={Unit.USER: "noisy-counts of the survey with every outcome turned round"},
)


RESTATED = Restated(
    proof="privacy.sensitivity.win_counts_sensitivity",
    what="losses of each item",
    entries=lambda n_items: n_items,
    lines=noisy_counts.RESTATED.lines,
)


class ReleasedLosses(ReleasedRecord):
    """The noisy counts of lost comparisons."""

    shows = (Figure.SCORES,)
    kind: Literal["loss-counts"] = "loss-counts"
    losses: dict[str, int]


KINDS.pop("loss-counts")  # it is of the tests below alone


def _problems(config: Sections) -> Problems:
    if config.top_k == 1:
        yield "top_k", "one item has no loser; write 2 or more"


class NoisyLosses(CountedMethod[CountMechanism]):
    """Rank by noisy counts of lost comparisons.

    Lost comparisons are the won ones of a survey with every outcome turned round, and every bound
    on people is the same for both: so the sensitivity is that of win counts.
    """

    facts = MethodFacts(
        name="noisy-losses",
        summary="rank by noisy counts of lost comparisons",
        kind="comparisons",
        units=(Unit.USER,),
        rules=_problems,
    )
    mechanism = CountMechanism
    statistic = Statistic.PAIR_COUNTS

    def calibrate(self, config: SurveyConfig) -> CountMechanism:
        params, ties = config.privacy.params(), config.comparisons.ties
        n_items = len(config.items.catalogue.names)
        calibration = calibrate_win_counts(params, n_items, ties.row_weight)
        return CountMechanism.of(params, calibration, n_items, ties)

    def terms(self, mechanism: CountMechanism) -> Terms:
        return Terms.of(mechanism.calibration, "on every count of losses")

    def draw(self, exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
        losses = WinCounts(exact["counts"].sum(axis=0), mechanism.row_weight)
        return {"losses": release_win_counts(losses, mechanism.calibration, bits).wins}

    def conclude(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig
    ) -> Conclusion:
        losses = WinCounts(drawn["losses"], mechanism.row_weight, confidential=False)
        estimate = _turned(rank_by_win_counts(losses, mechanism.law))
        return Conclusion(
            estimate=estimate,
            privacy=count_record(LOSSES, mechanism),
            released=ReleasedLosses(
                losses=dict(zip(config.items.catalogue.names, losses.wins.tolist(), strict=True))
            ),
            scale=Scale.WIN_SHARE,
        )

    def certified(self, mechanism: CountMechanism, drawn: Arrays) -> tuple[Draw, ...]:
        found = noise_of_counts(mechanism, (RESTATED,))
        return super().certified(mechanism, drawn) if found is None else (found,)

    def attacked(self, mechanism: CountMechanism) -> Attacked:
        return attacked_counts(mechanism)


def _turned(lost: Estimate) -> Estimate:
    last = lost.n_items + 1
    return Estimate(
        scores=-lost.scores,
        low=-lost.high,
        high=-lost.low,
        rank=last - lost.rank,
        rank_low=last - lost.rank_high,
        rank_high=last - lost.rank_low,
        groups=lost.groups.max() + 1 - lost.groups,
        informative=lost.informative,
    )


class FewItems(Method):
    """Noisy counts of wins where few items are ranked, of losses where many are."""

    facts = MethodFacts(
        name="by-size",
        summary="choose by the number of items",
        kind="comparisons",
        units=(Unit.USER,),
    )

    def resolve(self, config: SurveyConfig) -> Choice:
        n_items = len(config.items.catalogue.names)
        if n_items > 3:
            return Choice(NoisyLosses(), f"{n_items} items are many")
        return METHODS["noisy-counts"].resolve(config)


@pytest.fixture
def losses(survey, monkeypatch):
    monkeypatch.setitem(METHODS, "noisy-losses", NoisyLosses())
    monkeypatch.setitem(KINDS, "loss-counts", ReleasedLosses)
    return survey.set(method="noisy-losses")


@pytest.fixture
def by_size(losses, monkeypatch):
    monkeypatch.setitem(METHODS, "by-size", FewItems())
    return losses.set(method="by-size")


def test_it_is_checked_planned_and_run_as_any_other(losses, command):
    config = load_config(losses.config)
    assert config.method == "noisy-losses"
    code, printed = command("validate", losses.config)
    assert code == 0, printed
    assert "on every count of losses" in printed
    code, printed = command("plan", losses.config, "--people", 200, "--epsilon", "2")
    assert code == 0, printed
    compared = printed.partition("Methods at epsilon 2:")[2]
    assert "\nnoisy-losses" in compared
    assert "\nnoisy-counts" in compared
    code, printed = command("run", losses.config, "--direct")
    assert code == 0, printed
    release = load_release(losses.output / "release.json")
    assert release.method == "noisy-losses"
    assert release.safe
    assert [line.item for line in release.ranking] == ["ants", "bees", "cats", "dogs"]
    assert release.privacy.sensitivity == METHODS["noisy-losses"].calibrate(config).sensitivity.l1
    assert "count of lost comparisons" in " ".join(release.privacy.statement)
    code, printed = command("run", losses.config, "--direct")
    assert code == 0, printed
    assert load_release(losses.output / "release.json") == release  # paid for once


def test_its_record_figure_certificate_and_audit_are_its_own(losses, command, tmp_path):
    code, printed = command("run", losses.config, "--direct")
    assert code == 0, printed
    text = (losses.output / "release.json").read_text()
    release = Release.model_validate_json(text)
    assert isinstance(release.released, ReleasedLosses)
    assert release.released.losses == json.loads(text)["released"]["losses"]
    assert [figure.identifier for figure in figures_of(release)] == ["scores"]
    assert 'id="scores"' in (losses.output / "report.html").read_text()
    (draw,) = load_certificate(losses.output).draws
    assert (draw.what, draw.entries) == ("losses of each item", 4)
    assert draw.sensitivity.l1 == release.privacy.sensitivity_l1
    folder = tmp_path / "audit"
    folder.mkdir()
    (part,) = central_parts(load_config(losses.config), folder, reduce_rows)
    assert part.epsilon == release.privacy.epsilon
    assert part.law is NoiseKind.LAPLACE
    assert len(part.centres) == len(part.sides) > 1


def test_a_record_of_an_unknown_kind_is_refused(losses, command, monkeypatch):
    code, printed = command("run", losses.config, "--direct")
    assert code == 0, printed
    monkeypatch.delitem(KINDS, "loss-counts")
    with pytest.raises(ConfigError, match="is not a release of hushrank, or was changed"):
        load_release(losses.output / "release.json")


def test_its_noise_is_on_its_own_counts(losses):
    method, config = NoisyLosses(), load_config(losses.set(privacy__epsilon=100.0).config)
    wins = np.array([[0, 70, 80, 90], [30, 0, 60, 70], [20, 40, 0, 50], [10, 30, 50, 0]])
    mechanism = method.calibrate(config)
    drawn = method.draw({"counts": wins}, mechanism, system_bits())
    assert np.abs(drawn["losses"] - wins.sum(axis=0)).max() <= 5  # scale 0.12
    assert (drawn["losses"] != wins.sum(axis=1)).any()
    assert method.conclude(drawn, mechanism, config).estimate.order.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"link": "probit"}}, "model.link: is not used by method: noisy-losses; remove"),
        ({"spectral": {}}, "spectral: is for method: spectral or spectral-rr; remove it"),
        (
            {"privacy__public_graph": True, "privacy__public_graph_statement": "all"},
            "privacy.public_graph: changes nothing with method: noisy-losses; remove it",
        ),
        ({"top_k": 1}, "top_k: one item has no loser; write 2 or more"),
        (
            {"privacy": {"unit": "local", "epsilon": 1.0}, "input__ties": "random"},
            "method: noisy-losses adds noise after counting, which privacy.unit: local rules out",
        ),
        ({"method": "noisy-loses"}, "got 'noisy-loses'. Did you mean noisy-losses?"),
    ],
)
def test_what_does_not_suit_it_is_refused(losses, changes, message):
    with pytest.raises(ConfigError) as refused:
        load_config(losses.set(**changes).config)
    assert message in str(refused.value)


def test_the_reference_has_a_line_on_it(losses, command):
    _, printed = command("reference")
    assert "`noisy-losses` | `comparisons`; unit `user` | Rank by noisy counts of lost" in printed
    (line,) = (each for each in printed.splitlines() if each.startswith("| `method` |"))
    assert "`noisy-losses`" in line


def test_a_method_may_choose_another_one_and_say_why(by_size, command):
    why = "method noisy-losses, because 4 items are many"
    code, printed = command("validate", by_size.config)
    assert code == 0, printed
    assert why in " ".join(printed.split())
    code, printed = command("plan", by_size.config, "--people", 200, "--epsilon", "2")
    assert code == 0, printed
    assert "\nMethod by-size takes noisy-losses: 4 items are many.\n" in printed
    assert "\nnoisy-losses" in printed.partition("Methods at epsilon 2:")[2]
    code, printed = command("run", by_size.config, "--direct")
    assert code == 0, printed
    release = load_release(by_size.output / "release.json")
    assert release.method == "noisy-losses"
    assert release.privacy.parameters["method_chosen_because"] == "4 items are many"


def test_what_was_chosen_is_stored_with_what_it_drew(by_size, command, monkeypatch):
    """A later version would choose otherwise: the release is ranked by the method that drew it."""

    def fails(*_: object) -> None:
        raise ConfigError("killed")

    with monkeypatch.context() as killed:
        killed.setattr("hushrank.flows.run.run.estimate", fails)
        code, printed = command("run", by_size.config, "--direct")
    assert code != 0, printed
    monkeypatch.setattr(FewItems, "resolve", METHODS["noisy-counts"].resolve)
    (work,) = by_size.work.glob("*/drawn.npz")
    code, printed = command("resume", work.parent.name, by_size.config)
    assert code == 0, printed
    release = load_release(by_size.output / "release.json")
    assert release.method == "noisy-losses"
    assert release.privacy.parameters["method_chosen_because"] == "4 items are many"


def test_a_module_is_found_by_the_name_of_its_folder(tmp_path, monkeypatch):
    package = tmp_path / "ranking_methods"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helpers.py").write_text("SIZE = 3\n")
    (package / "one.py").write_text(
        textwrap.dedent(
            """
            from tests.flows.methods.test_a_new_method import NoisyLosses
            METHODS = (NoisyLosses(),)
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = methods_in([str(package)], "ranking_methods")
    assert found.facts.name == "noisy-losses"


def test_every_method_of_the_room_is_registered():
    """By name, once, in the order of kinds, then noise after counting, then baselines."""
    package = "hushrank.flows.methods"
    modules = pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
    families = [importlib.import_module(each.name) for each in modules if each.ispkg]
    found = [each for one in families for each in methods_in(one.__path__, one.__name__)]
    assert {each.facts.name for each in found} == set(METHODS) - {"auto"}  # which is of no family
    assert len(found) == len(METHODS) - 1 > 10
    told = [
        "noisy-counts",
        "one-shot",
        "debiased-rr",
        "classic-rr",
        "spectral",
        "spectral-rr",
        "borda",
    ]
    assert [name for name in METHODS if name in told] == told
    assert {each.facts.kind for each in found} == set(registry.KINDS)


def test_no_configuration_is_checked_without_a_table_of_methods(survey):
    content = read_yaml(survey.config)
    with pytest.raises(LookupError, match="against a table of methods"):
        SurveyConfig.model_validate(content)
    with pytest.raises(ConfigError, match="method: must be noisy-losses, got 'noisy-counts'"):
        check_config(survey.config, content, {"noisy-losses": NoisyLosses.facts})


def test_no_other_room_knows_a_method_by_its_name():
    """But for examples and defaults: of `init`, of the reference, and of calls from Python.

    A rule of elections has the name of a method.
    """
    (folder,) = hushrank.flows.__path__
    examples = {
        *("config/collect.py", "planning/plan/limits.py", "planning/propose/sections.py"),
        *(
            "interfaces/python/configuration.py",
            "config/rankings.py",
            "release/election.py",
            "release/precincts.py",
        ),
    }
    found = {
        str(path.relative_to(folder))
        for path in Path(folder).rglob("*.py")
        if "methods" not in path.parts and names_a_method(path.read_text())
    }
    assert found == examples
    assert names_a_method('if config.method == "one-shot": pass')


def names_a_method(source: str) -> bool:
    """Whether a text of the program is the name of a method and of nothing else."""
    names = set(METHODS) - {"spectral", "auto"}  # words of the YAML file that mean more than that
    constants = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return any(constant.value in names for constant in constants)
