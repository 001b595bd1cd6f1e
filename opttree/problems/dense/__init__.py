"""GradTree's problem: complete axis-aligned trees with dense weights."""
