"""Private names of torch that only proofs and tests need: faults put into the compiler, and measures beside it."""
