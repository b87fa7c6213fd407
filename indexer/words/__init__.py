"""The words of the papers of a collection: how often each counts where, and how rare it is among all."""
