"""The problem of one node, which TAO solves again and again."""
