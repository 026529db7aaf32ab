"""The commands of the command line, one file each; ``options`` has what they share."""
