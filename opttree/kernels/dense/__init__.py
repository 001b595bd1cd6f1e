"""Complete axis-aligned trees with dense weights over features: GradTree's form."""
