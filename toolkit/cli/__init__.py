"""One module for each command: parse the options, call the job, render what it returns."""
