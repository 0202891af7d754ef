"""The papers' experiments on the pure layers, one module per paper."""
