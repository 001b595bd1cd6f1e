"""Tables as people have them: columns, categories, missing values, chunks, data sets."""
