"""Our rows, and the few questions asked of them. One public method is one transaction."""
