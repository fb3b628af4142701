"""What the page holds: texts of its controls, and what they say."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from pabi.describe.batches import Batches
from pabi.describe.files import Description, description_in, run_file, tables_in, to_dict
from pabi.describe.losses import parameter_names
from pabi.describe.runs import NoisySGD
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.showing import exact, shown

# What can be set on the page: one row for each control, with its label and what it means.


Choices = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Control:
    """One control.

    `kind`: "number", "whole", "choice" or "lines". `ends`: those of a logarithmic slider. `only`: controls,
    and their values, with which it means something. `table`, `field`: where a run file has it.
    """

    name: str
    label: str
    kind: Literal["number", "whole", "choice", "lines"]
    _: KW_ONLY
    group: str
    default: str = ""
    choices: Choices = ()
    ends: tuple[float, float] | None = None
    only: tuple[tuple[str, tuple[str, ...]], ...] = ()
    hint: str = ""
    table: str = ""
    field: str = ""


_LOSSES: Choices = (
    ("logistic", "logistic (two classes)"),
    ("softmax", "softmax (several classes)"),
    ("one_vs_rest", "one against the rest"),
    ("squared", "squared"),
    ("huber", "Huber"),
    ("smoothed_hinge", "smoothed hinge (linear SVM)"),
    ("poisson", "Poisson (counts)"),
    ("gamma", "Gamma (amounts)"),
    ("convex", "any smooth convex loss"),
    ("strongly_convex", "any smooth, strongly convex loss"),
    ("nonconvex", "bounded curvature (no network's)"),
    ("weakly_convex", "any smooth, weakly convex loss"),
    ("lipschitz", "any convex Lipschitz loss, with kinks"),
    ("holder", "any loss with a Hölder gradient"),
    ("dissipative", "any dissipative loss"),
    ("unknown", "nothing known, as of a network's"),
)
# Of the parameters of losses: label, what is in the box at first, slider, meaning.
_PARAMETERS: Mapping[str, tuple[str, str, tuple[float, float] | None, str]] = {
    "feature_norm": ("feature norm", "1", (0.1, 100), "The largest norm of features, with an intercept's 1."),
    "classes": ("classes", "10", None, "How many classes there are."),
    "residual_bound": ("residual bound", "1", (0.1, 100), "The largest error of a prediction."),
    "threshold": ("threshold", "1", (0.01, 100), "Where Huber's loss turns from a square to a line."),
    "smoothing": ("smoothing", "0.5", (0.01, 10), "The width over which the kink is rounded off."),
    "predictor_bound": ("predictor bound", "2", (0.1, 10), "Beyond it the loss goes on as a line."),
    "count_bound": ("largest count", "10", (1, 1000), "The largest count of a record."),
    "strong_convexity": ("strong convexity", "0.1", (1e-4, 10), "The least curvature of a record's loss."),
    "smoothness": (
        "smoothness", "1", (0.01, 100), "The most curvature of a record's loss. ReLU networks have no bound.",
    ),
    "weak_convexity": ("weak convexity", "0.1", (1e-4, 10), "How far below zero the curvature may lie."),
    "constant": ("gradient constant", "1", (0.01, 100), "The bound that the loss's kind speaks of."),
    "exponent": ("Hölder exponent", "0.5", None, "Between 0 (kinks) and 1 (smooth)."),
    "offset": ("offset", "0.1", (1e-4, 10), "λ of the dissipativity."),
    "rate": ("rate", "0.1", (1e-4, 10), "κ of the dissipativity."),
    "residual_cap": ("residual cap", "", None, "Residuals are clipped at it. Empty: they are not."),
    "gradient_bound": ("gradient bound", "", None, "A bound on every record's gradient, if one is known."),
}  # fmt: skip


def _loss_control(name: str) -> Control:
    label, default, ends, hint = _PARAMETERS[name]
    having = tuple(kind for kind, _ in _LOSSES if name in parameter_names(kind))
    return Control(
        name, label, "whole" if name == "classes" else "number", group="Loss", default=default,
        ends=ends, only=(("loss", having),), hint=hint, table="loss", field=name,
    )  # fmt: skip


_SIZED = ("cyclic", "shuffle_once", "reshuffle", "balls_in_bins", "fixed_size", "poisson")

CONTROLS: tuple[Control, ...] = (
    Control("loss", "loss", "choice", group="Loss", default="logistic", choices=_LOSSES, table="loss",
            field="kind",
            hint="What one record adds to what is minimised."),
    *map(_loss_control, _PARAMETERS),
    Control("l2", "ℓ2 regularisation", "number", group="Loss", default="0.01", ends=(1e-5, 1),
            table="loss", field="l2",
            hint="λ: it pulls models together, so that more is forgotten. May be empty."),
    Control("n", "records", "whole", group="Data and batches", default="60000", ends=(100, 1e7), field="n",
            hint="n: how many records, or users, there are."),
    Control("batches", "batches", "choice", group="Data and batches", default="cyclic", choices=(
        ("cyclic", "the same batches in the same order"),
        ("shuffle_once", "shuffled once, secretly"),
        ("reshuffle", "shuffled anew every epoch"),
        ("balls_in_bins", "every record into a batch at random"),
        ("fixed_size", "fixed size: drawn anew each step"),
        ("poisson", "Poisson: every record by chance"),
        ("full_batch", "all records at every step"),
    ), table="batches", field="kind", hint="How the records of a step are chosen."),
    Control("size", "batch size", "whole", group="Data and batches", default="1500", ends=(1, 1e5),
            table="batches",
            field="size", only=(("batches", _SIZED),), hint="Every sum is divided by it."),
    Control("cap", "batch cap", "whole", group="Data and batches", table="batches", field="cap",
            only=(("batches", ("poisson", "balls_in_bins")),),
            hint="The most records of a random batch. May be empty."),
    Control("redraw", "drawn anew", "choice", group="Data and batches", default="once", choices=(
        ("once", "never: a record keeps its batch"),
        ("epoch", "in every epoch"),
    ), table="batches", field="redraw", only=(("batches", ("balls_in_bins",)),),
            hint="Whether records are put into batches anew."),
    Control("spare", "records left out", "whole", group="Data and batches", table="batches", field="spare",
            only=(("batches", ("shuffle_once", "reshuffle")),),
            hint="How many at the end of the shuffle are in no batch. May be empty."),
    Control("epochs", "epochs", "number", group="Training", default="50", ends=(1, 1000), field="epochs",
            hint="Passes over the data."),
    Control("step_size", "step size", "number", group="Training", default="0.5", ends=(1e-4, 10),
            field="step_size",
            hint="η: how far a step goes along the gradient."),
    Control("schedule", "schedule", "choice", group="Training", default="constant", choices=(
        ("constant", "the same at every step"),
        ("linear", "falls in a line to a tenth"),
        ("root", "falls as 1/√k"),
    ), hint="How the step size changes during the training."),
    Control("cooldown_steps", "cool-down steps", "whole", group="Training", field="cooldown_steps",
            hint="Final steps with noise and regulariser and without data. May be empty."),
    Control("noise_kind", "noise is given as", "choice", group="Noise and clipping", default="noise_std",
            choices=(
        ("noise_std", "standard deviation"),
        ("noise_multiplier", "multiplier (as in Opacus)"),
    ), hint="The deviation is of the mean gradient; times batch size over clip norm it is the multiplier."),
    Control("noise", "noise", "number", group="Noise and clipping", default="0.01", ends=(1e-5, 10),
            field="noise",
            hint="More noise is more private and less accurate."),
    Control("clip_norm", "clip norm", "number", group="Noise and clipping", field="clip_norm",
            hint="Longer gradients of a record are scaled down to it. Empty: they are not."),
    Control("clipping", "clipping", "choice", group="Noise and clipping", default="norm", choices=(
        ("norm", "of the gradient's norm"),
        ("coordinates", "of every coordinate"),
        ("residual", "of the residual (convex clipping)"),
        ("ball", "of the residuals' norm (softmax)"),
    ), field="clipping", hint="What is scaled down where there is a clip norm."),
    Control("diameter", "diameter", "number", group="Noise and clipping", field="diameter",
            hint="A bound on the distance of any two models, if any. May be empty."),
    Control("adjacency", "adjacency", "choice", group="What is promised", default="replace_one", choices=(
        ("replace_one", "one record is replaced"),
        ("zero_out", "one record is left out (its gradient is zero)"),
    ), field="adjacency", hint="Which two data sets must look alike. Opacus counts the second."),
    Control("release", "what is released", "choice", group="What is promised", default="last", choices=(
        ("last", "the last model alone"),
        ("path", "every model on the way"),
    ), field="release", hint="The proofs that hide the way need that nobody sees it."),
    Control("delta", "δ", "number", group="What is promised", default="1e-05", ends=(1e-12, 1e-2),
            hint="What the promise of ε may leave out. Far below 1/n."),
    Control("further", "further fields (TOML)", "lines", group="More",
            hint="What a run file can say and no control here does. It wins over the controls."),
)  # fmt: skip

# What the controls can begin with: a name, and what differs from their defaults.
BEGINNINGS: Mapping[str, dict[str, str]] = {
    "a linear model": {},
    "a network": {
        "loss": "unknown", "l2": "", "clip_norm": "1", "noise_kind": "noise_multiplier", "noise": "1",
        "size": "600", "epochs": "10", "batches": "poisson", "adjacency": "zero_out",
    },
}  # fmt: skip

BESIDES: tuple[Control, ...] = (
    Control("target_of", "what is bounded", "choice", group="Target", default="epsilon", choices=(
        ("epsilon", "ε at the δ of the run"),
        ("mu", "μ of Gaussian differential privacy"),
        ("advantage", "advantage of an attacker"),
        ("tpr", "members found at given false alarms"),
    ), hint="The guarantee as a whole meets it, against every attack."),
    Control("target", "target ε", "number", group="Target", default="1", ends=(0.05, 10),
            only=(("target_of", ("epsilon",)),), hint="The ε to be met."),
    Control("target_mu", "target μ", "number", group="Target", default="0.5", ends=(0.05, 5),
            only=(("target_of", ("mu",)),),
            hint="Of secret batches it is that of the worst order: other targets need less noise."),
    Control("target_advantage", "target advantage", "number", group="Target", default="0.1",
            ends=(0.01, 0.9), only=(("target_of", ("advantage",)),),
            hint="Members found minus false alarms. 0.1: right about 55 of 100 people, not 50."),
    Control("target_tpr", "share of members found", "number", group="Target", default="0.05",
            ends=(0.001, 0.9), only=(("target_of", ("tpr",)),),
            hint="The true-positive rate, at most. More than the false alarms, which guessing finds."),
    Control("target_fpr", "share of false alarms", "number", group="Target", default="0.01",
            ends=(1e-4, 0.1), only=(("target_of", ("tpr",)),),
            hint="The false-positive rate that the attack may have."),
    Control("parameter", "what to change", "choice", group="Target", default="noise", choices=(
        ("noise", "noise"), ("epochs", "epochs"), ("size", "batch size"), ("clip_norm", "clip norm"),
    ), hint="The rest of the run stays as it is."),
    Control("records", "records to forget", "whole", group="Request", default="50", ends=(1, 1000),
            hint="How many records are withdrawn together: all of those that the people have."),
    Control("forget_target", "target ε of forgetting", "number", group="Request", default="1",
            ends=(0.05, 10),
            hint="How near the model has to be to one retrained without them."),
    Control("budget_epsilon", "ε of the budget", "number", group="Budget", default="3", ends=(0.1, 20),
            hint="What all releases from the same people may cost together."),
    Control("budget_delta", "δ of the budget", "number", group="Budget", default="1e-05",
            ends=(1e-12, 1e-2)),
    Control("what_epsilon", "ε of one more release", "number", group="What if", default="0.5",
            ends=(0.01, 10)),
    Control("what_delta", "δ of one more release", "number", group="What if", default="1e-05",
            ends=(1e-12, 1e-2)),
    Control("demo_data", "data", "choice", group="Demo", default="cancer", choices=(
        ("cancer", "breast cancer (569 records, 2 classes)"),
        ("digits", "handwritten digits (1797 records, 10 classes)"),
    ), hint="Both come with scikit-learn and are public."),
    Control("demo_epsilon", "ε", "number", group="Demo", default="1", ends=(0.1, 10),
            hint="What is planned for."),
    Control("demo_delta", "δ", "number", group="Demo", default="1e-05", ends=(1e-9, 1e-3),
            hint="What the promise of ε may leave out. Far below one over the number of records."),
)  # fmt: skip

_LABELS = {control.name: control.label for control in (*CONTROLS, *BESIDES)}
_DEFAULTS = {control.name: control.default for control in (*CONTROLS, *BESIDES)}
_NAMES = {"kind": "further", "noise_std": "noise", "noise_multiplier": "noise", "epsilon": "target"}
_NAMES |= {name: f"target_{name}" for name in ("mu", "advantage", "tpr", "fpr")}


def label_of(field: str) -> tuple[str | None, str]:
    """The control that a field of the library is set with, None where there is none, and its label."""
    name = _NAMES.get(field, field)
    label = _LABELS.get(name)
    return (None, field) if label is None else (name, label)


def page() -> dict[str, list[dict[str, Any]]]:
    """All controls for the page, in JSON."""
    return {
        "run": [asdict(control) for control in CONTROLS],
        "besides": [asdict(control) for control in BESIDES],
    }


def names() -> frozenset[str]:
    """What the page's address may set: the controls, the view, and the two runs that are compared."""
    return frozenset(_LABELS) | {"view", "a", "b"}


# Numbers as people type them.


_SPACES = re.compile(r"[\s_\u00a0\u2009\u202f']")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)
_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(\.000)+")  # a thousand to some; nobody writes one so
_LONGEST = 60


def text_of(state: Mapping[str, Any], name: str) -> str:
    """What a control holds. Raises InvalidInput for what is no text."""
    value = state.get(name, _DEFAULTS[name])
    if not isinstance(value, str):
        raise InvalidInput(name, "expected a text")
    return value.strip()


def number(name: str, text: str) -> float:
    """The number that somebody typed, with a decimal point or comma. Raises InvalidInput."""
    plain = _SPACES.sub("", text).replace("−", "-")
    if _THOUSANDS.fullmatch(plain):
        raise InvalidInput(
            name, f"{text!r} can be read in two ways: write {plain.replace(',', '')} or "
            f"{plain.replace(',', '.')}0"
            if plain.count(",") == 1
            else f"expected a number without separators, such as {plain.replace(',', '')}"
        )  # fmt: skip
    if _GROUPS.fullmatch(plain):
        raise InvalidInput(
            name, f"{text!r} can be read in two ways: write {plain.replace('.', '')} or "
            f"{plain.partition('.')[0]}"
        )  # fmt: skip
    require(
        len(plain) <= _LONGEST and _NUMBER.fullmatch(plain),
        name,
        f"expected a number such as 0.5 or 0,5, got {_short(text)}",
    )
    value = float(plain.replace(",", "."))
    require(math.isfinite(value), name, f"expected a finite number, got {_short(text)}")
    return value


def number_in(state: Mapping[str, Any], name: str, **bounds: float) -> float:
    """The number that a control holds, within these bounds. Raises InvalidInput."""
    return validate.number(name, number(name, text_of(state, name)), **bounds)


def whole(name: str, text: str) -> int:
    """The whole number that somebody typed. Raises InvalidInput."""
    plain = _SPACES.sub("", text)
    if plain.isascii() and plain.isdigit() and len(plain) <= _LONGEST:
        return int(plain)
    if _THOUSANDS.fullmatch(plain.replace(".", ",")) and "." in plain:
        raise InvalidInput(name, f"expected a whole number without separators, got {_short(text)}")
    value = number(name, text)
    require(
        "," not in plain and value == int(value),
        name,
        f"expected a whole number such as 60000, got {_short(text)}",
    )
    return int(value)


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


# What a page asks, taken apart; anything odd is one InvalidInput.


def state_in(request: dict[str, Any], name: str = "state") -> dict[str, Any]:
    """What the controls hold, by their names."""
    state = request.get(name, {})
    if not isinstance(state, dict):
        raise InvalidInput(name, "expected an object")
    return state


def text_in(request: dict[str, Any]) -> str:
    """The text of a file."""
    text = request.get("text")
    if not isinstance(text, str):
        raise InvalidInput("file", "expected a file with text in UTF-8")
    return text.removeprefix("\ufeff")


State = Mapping[str, Any]
Event = tuple[str, dict[str, Any]]  # its name, and its data for the page

_RUN = "noisy_sgd"
_TABLES = ("loss", "batches")
_NOISES = ("noise_std", "noise_multiplier")
_NO_FIELD = ("schedule", "noise_kind", "noise", "delta", "further")
# The size of step k of a run, as a share of the first one.
_SHAPES: Mapping[str, Callable[[int, int], float]] = MappingProxyType(
    {
        "linear": lambda k, steps: max(1.0 - 0.9 * k / max(steps - 1, 1), 0.1),
        "root": lambda k, steps: 1.0 / math.sqrt(k + 1.0),
    }
)


@dataclass(frozen=True)
class Picked:
    """What is set on the page: a description and the δ at which it is read.

    `rest`: whether further fields alone describe it, so that most controls say nothing.
    """

    description: Description
    delta: float
    rest: bool


def read(state: State) -> Picked:
    """What the controls say. Raises InvalidInput naming a control or a field."""
    delta = number_in(state, "delta", above=0.0, below=1.0)
    further = tables_in(text_of(state, "further"), "further")
    if further.get("kind", _RUN) != _RUN:
        try:
            return Picked(description_in(further), delta, rest=True)
        except InvalidInput as bad:  # the mistake is that of the further fields
            raise InvalidInput("further", str(bad)) from None
    table = _together(_table(state), further)
    run = description_in(table)
    shape = text_of(state, "schedule")
    if shape in _SHAPES and "step_size" not in further and isinstance(run, NoisySGD):
        first, steps = float(table["step_size"]), run.steps
        run = replace(run, step_size=lambda k: float(first * _SHAPES[shape](k, steps)))
    return Picked(run, delta, rest=False)


def _table(state: State) -> dict[str, Any]:
    """The tables of a run file that the controls hold."""
    table: dict[str, Any] = {"kind": _RUN, "loss": {}, "batches": {}}
    for control in CONTROLS:
        if control.name in _NO_FIELD or not _shown(control, state):
            continue
        value = _value(control, text_of(state, control.name))
        if value is not None:
            (table[control.table] if control.table else table)[control.field] = value
    noise = text_of(state, "noise")
    if noise:
        table[text_of(state, "noise_kind")] = number("noise", noise)
    if "clip_norm" not in table:
        table.pop("clipping", None)
    return table


def _shown(control: Control, state: State) -> bool:
    """Whether a control means something beside the others."""
    return all(text_of(state, name) in values for name, values in control.only)


def _value(control: Control, text: str) -> Any:
    """What a control's text stands for, None for an empty one."""
    if control.kind == "choice":
        must_be(
            text in {value for value, _ in control.choices},
            control.name,
            "one of its choices",
            text,
        )
        return text
    if not text:
        return None
    return whole(control.name, text) if control.kind == "whole" else number(control.name, text)


def _together(table: dict[str, Any], further: dict[str, Any]) -> dict[str, Any]:
    """The controls' tables with further fields, which count more."""
    if "steps" in further:
        table.pop("epochs", None)
    if any(name in further for name in _NOISES):
        table = {name: value for name, value in table.items() if name not in _NOISES}
    both = table | further
    for name in _TABLES:
        own, other = table[name], further.get(name)
        if isinstance(other, dict) and "kind" not in other:
            both[name] = own | other
    return both


def state_of(description: Description, delta: float) -> dict[str, str]:
    """What the controls hold for a description; what none of them can hold is under `further`."""
    return state_of_table(to_dict(description), delta)


def state_of_table(table: Mapping[str, Any], delta: float) -> dict[str, str]:
    """`state_of` for the tables of a run file."""
    state = {"delta": exact(delta)}
    rest = {name: dict(v) if isinstance(v, Mapping) else v for name, v in table.items()}
    if rest.get("kind", _RUN) != _RUN:
        return state | {"further": run_file(rest, []).strip()}
    rest.pop("kind", None)
    for name in _TABLES:
        kinds = {v for c in CONTROLS if c.name == name for v, _ in c.choices}
        if isinstance(rest.get(name), dict) and rest[name].get("kind") not in kinds:
            continue
        _move(rest, state, name)
    _move(rest, state, "")
    for name in _NOISES:
        value = rest.get(name)
        if isinstance(value, int | float):
            state |= {"noise_kind": name, "noise": exact(value)}
            rest.pop(name)
    for name in ("epochs", "noise"):
        state.setdefault(name, "")
    state["schedule"] = "constant"
    rest = {name: value for name, value in rest.items() if value != {} and value is not None}
    return state | {"further": run_file(rest, []).strip() if rest else ""}


def _move(rest: dict[str, Any], state: dict[str, str], table: str) -> None:
    """Moves what a table has and controls can hold to `state`."""
    source = rest.get(table) if table else rest
    if not isinstance(source, dict):
        return
    for control in CONTROLS:
        if control.table != table or control.name in _NO_FIELD:
            continue
        value = source.get(control.field)
        choices = {v for v, _ in control.choices}
        if isinstance(value, str) and value in choices:
            state[control.name] = source.pop(control.field)
        elif isinstance(value, int | float) and not isinstance(value, bool) and not choices:
            state[control.name] = exact(source.pop(control.field))
        elif control.field not in source and _shown(control, state):
            state[control.name] = control.default if choices else ""


def rows_of(description: Description, delta: float) -> list[tuple[str, str]]:
    """What is done to the data and promised of it, line by line, in the words of the controls."""
    state = state_of(description, delta)
    rows = []
    for control in CONTROLS:
        text = state.get(control.name, "")
        if control.name == "noise" and isinstance(description, NoisySGD):
            rows.append((control.label, noise_of(description)))
        elif control.name == "clipping" and getattr(description, "clip_norm", None) is None:
            continue
        elif text and control.name != "noise_kind" and _shown(control, state):
            rows.append((control.label, dict(control.choices).get(text, text)))
    return rows


def batches_in_words(batches: Batches) -> str:
    """How batches are drawn, in the words of the controls."""
    words = {c.name: dict(c.choices) for c in CONTROLS if c.name in ("batches", "redraw")}
    redraw = getattr(batches, "redraw", "once")
    how = words["batches"][batches.kind]
    return how if redraw == "once" else f"{how}, {words['redraw'][redraw]}"


def noise_of(run: NoisySGD) -> str:
    """The noise in both units, where it is one number; "" without any."""
    if isinstance(run.noise_multiplier, int | float):
        return f"multiplier {exact(run.noise_multiplier)}"
    if not isinstance(run.noise_std, int | float):
        return ""
    text = f"standard deviation {exact(run.noise_std)} of the mean gradient"
    if run.clip_norm is None:
        return text
    return f"{text}, a multiplier of {shown(run.noise_std * run.batch_size / run.clip_norm)}"


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What another run has in other controls, in their words; "" where none of them says it."""
    texts = []
    for control in CONTROLS:
        text = after.get(control.name, control.default)
        if text == before.get(control.name, control.default) or not _shown(control, after):
            continue
        words = dict(control.choices).get(text, text or "none")
        texts.append(f"{control.label}: {words}")
    return "; ".join(texts)
