"""What is requested, as alternatives in the order of preference: op, conj, group and preference worked out.

Source: SSS 3.1.0, "Requested".
"""
