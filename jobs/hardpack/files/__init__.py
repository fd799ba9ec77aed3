"""Data files read, hashed and written with Arrow, without Spark. Imports table and rules."""
