"""The engines, one file each: each drives a subject in its own way and fills a tally."""
