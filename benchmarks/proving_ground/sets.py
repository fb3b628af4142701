"""Which problems settings are chosen on, and which they are judged on; fixed before anything was run.

Each problem has the reason why it is where it is. The settings of earlier versions were measured on Adult,
digits, MNIST and the mixture of Gaussians, which therefore can judge nothing any more. The others were paired
as far as they are alike in kind, size and balance, and each pair was parted; where there is no pair, the
counterpart is named that keeps the halves alike. No estimator of pabi had been run on a problem for judging.
"""

from __future__ import annotations

SETTING = {
    "adult": "a census table with rare levels; earlier settings were measured on it",
    "alcohol": "a survey table with 10 % positives and a weak signal; the pair of caravan",
    "bikeshare": "regression on indicators, seven thousand rows; the pair of computers",
    "credit_default": "a rare event, 3.3 %, in four columns; the pair of rare",
    "diamonds": "regression on forty thousand rows with a strong signal; the pair of budget_food",
    "digits": "small images; earlier settings were measured on it",
    "embedding_even": "1 280 correlated columns, ten equal classes; the pair of embedding_uneven",
    "hi": "a balanced survey table of eighteen thousand rows; the pair of labsup",
    "ill_conditioned": "regression in which weak directions matter; the pair of heavy_linear",
    "mixture": "weak directions that matter, ten classes; earlier settings were measured on it",
    "mnist": "images in ten classes; earlier settings were measured on it; the pair of fashion_mnist",
    "segment": "seven classes by measurements of patches, two thousand rows; the pair of doctor_aus",
    "trees": "a nonlinear label that a linear model can only approach; the pair of flchain",
    "wage": "regression on two thousand rows with a weak signal; the pair of census",
    "words": "4 000 columns, sparse rows and a sparse logit; the pair of wide_mixture",
    "yeast": "a hundred columns on two thousand rows of norm 1; as small as doctor_aus, and wide",
}

JUDGING = {
    "budget_food": "regression on nineteen thousand rows, few columns; the pair of diamonds",
    "bundesliga": "three classes with a weak signal in a hundred indicators; the counterpart of mixture",
    "caravan": "6 % positives, 134 columns, a weak signal; the pair of alcohol",
    "census": "regression with a weak signal across 51 indicators; the pair of wage",
    "computers": "regression on five thousand rows with a strong signal; the pair of bikeshare",
    "doctor_aus": "four uneven classes, four thousand rows; the pair of segment",
    "embedding_uneven": "512 correlated columns, six uneven classes; the pair of embedding_even",
    "fashion_mnist": "images in ten classes; the pair of mnist",
    "flchain": "a medical table of six thousand rows, 28 % positives; the pair of trees",
    "happiness": "three uneven classes with many missing answers; the counterpart of adult",
    "heavy_linear": "regression with heavy tails; the pair of ill_conditioned",
    "heavy_tails": "three classes, and rows far shorter than the bound; as wide as digits",
    "labsup": "a balanced census table of twenty-five thousand rows; the pair of hi",
    "rare": "a rare event, 3 %, in sixty columns; the pair of credit_default",
    "shuttle": "7 % unusual states by nine sensors with outliers; the counterpart of yeast",
    "wide_mixture": "4 000 dense columns, five classes; the pair of words",
}
