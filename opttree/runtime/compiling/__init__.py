"""How kernels are compiled: once for each machine, several at a time, callable by address."""
