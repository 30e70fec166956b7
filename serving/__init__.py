"""The server of `./sluice serve`: queries over tables and hot tails, by HTTP and Flight SQL."""
