"""The kernels: functions that Numba compiles. This package knows where they are kept, and when they run as plain Python.

cache      the folder in which what was compiled is kept, and how a kernel finds itself there
kernel     the decorator; while others compile, a kernel runs as plain Python

Numba takes 0.2 s to import, so nothing is imported here. `contentcast.warming` compiles them ahead or in the background.
"""
