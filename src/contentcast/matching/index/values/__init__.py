"""Values and predicates become numbers: dictionaries, order codes, text tests, and the entries of a subscription."""
