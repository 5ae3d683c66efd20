"""The clients of a broker: what they ask for, and what is handed to them."""
