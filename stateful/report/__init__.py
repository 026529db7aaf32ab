"""Reports that need more than a few lines: explorations, and the survival matrix for terminals, Markdown and browsers."""
