"""The cache of model files: catalogue, download, wheels, hashes."""
