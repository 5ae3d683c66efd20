"""The evaluation of the fourth paper (Baldoni et al. 2005, section 5), and what its authors left out."""
