"""Named checkpoints: locating, fetching and converting their files to safetensors, which is all we load."""
