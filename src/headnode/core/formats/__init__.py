"""Job languages: each reads job files into the model and writes jobs back."""
