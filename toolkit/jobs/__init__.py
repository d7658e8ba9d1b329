"""One module for each thing hqtool does, composed of engine and io; no printing, no option parsing."""
