"""Reports that need more than a few lines: the survival matrix for terminals, Markdown and the browser."""
