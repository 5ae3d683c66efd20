"""The evaluation of the LAN paper (Eide et al. 2003, section 6), in network namespaces."""
