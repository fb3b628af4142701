"""Ganesh, Thakurta, Upadhyay."""

SOURCE = "Ganesh, Thakurta, Upadhyay"
