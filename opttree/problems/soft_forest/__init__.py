"""The problem of soft forests, whose answer is the mixture of all leaves."""
