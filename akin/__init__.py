"""Akin: find scientific papers akin to one you give it, in the respect you choose."""
