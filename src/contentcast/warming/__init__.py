"""Kernels are compiled ahead, or in the background while plain Python answers; nobody waits for a compiler.

parts        what there is to compile, in parts that processes take
compilers    the processes that compile, as many at a time as there are cores, and what they tell
background   the state of this process: are the kernels of the index here, and who wants to know when they are
old_kernels  what was compiled of older sources is removed
loading      the kernels of the index are called once, so that the next call waits for nothing
"""
