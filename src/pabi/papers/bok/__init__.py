"""Bok, Su, Altschuler 2024, *Shifted Interpolation for Differential Privacy*."""

SOURCE = "Bok, Su, Altschuler 2024"
