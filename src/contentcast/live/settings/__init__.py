"""What a broker is told before it starts: addresses, limits, certificates, rights, and who it is."""
