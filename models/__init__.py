"""The computations of Akin: domain types, sentences, encoders, transport; no I/O except loading weights."""
