"""What hqtool adds to vLLM: the topics' own code, their switches and their operators.

Importing this package does nothing. Upstream's files reach it only through the topics' hooks.
"""
