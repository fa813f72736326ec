"""Bands: queries that differ in constants of one attribute, told apart by cells."""
