"""Scopes: one consumer's subscription each. What a receipt means for a scope, when it leaves, and what happens when
something was lost.
"""
