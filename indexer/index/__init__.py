"""The nearest-neighbour index over the sentence vectors of a segment."""
