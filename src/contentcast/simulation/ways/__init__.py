"""The ways of a message in virtual time: links, LAN segments, the network below; and the parcels on them."""
