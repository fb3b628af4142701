"""What guarantees of estimators and transformers assume beside what follows from a description."""

PREPROCESSING = "preprocessing used no private data"
ONE_FIT = "this is one fit; what searches and refits cost has to be added"
LABELS = "the label set is public"
WEIGHTS = "class_weight is public"
