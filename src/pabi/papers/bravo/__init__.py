"""Bravo, Flores-Mella, Guzmán."""

SOURCE = "Bravo, Flores-Mella, Guzmán"
