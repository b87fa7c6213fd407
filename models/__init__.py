"""What Akin computes with: domain types, sentences, encoders and transport; no I/O but loading weights."""
