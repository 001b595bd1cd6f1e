"""What knows no tree: threads, clocks, interrupts, devices, files, options, compilation."""
