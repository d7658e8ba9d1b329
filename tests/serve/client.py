"""Asks a server through the OpenAI client; run with the CPU environment's Python: ``client.py URL``.

Prints a JSON list, one entry a prompt: the token ids of a greedy continuation and the logarithm of each one's
probability. The last entry is a chat.
"""

from __future__ import annotations

import json
import sys
from typing import Any

PROMPTS = [
    "Once upon a time",
    "0123456789",
    "The quick brown fox jumps over the lazy dog. " * 3,
    "\N{GREEK SMALL LETTER ALPHA} and \N{GREEK SMALL LETTER OMEGA}",
    "x",
]
LENGTH = 32


def main(url: str) -> None:
    """Ask every prompt, one after the other, so that no batch depends on timing."""
    from openai import OpenAI  # the test imports this module for its prompts, and hqtool's environment has no client

    client = OpenAI(base_url=f"{url}/v1", api_key="none", timeout=300)
    extra = {"ignore_eos": True, "return_token_ids": True}
    answers: list[dict[str, Any]] = []
    for prompt in PROMPTS:
        done = client.completions.create(
            model="tiny", prompt=prompt, max_tokens=LENGTH, temperature=0, logprobs=1, extra_body=extra
        )
        choice = done.choices[0]
        answers.append({"tokens": choice.model_extra["token_ids"], "logprobs": choice.logprobs.token_logprobs})
    chat = client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "Who are you?"}],
        max_tokens=LENGTH,
        temperature=0,
        logprobs=True,
        extra_body=extra,
    )
    said = chat.choices[0]
    probabilities = [token.logprob for token in said.logprobs.content]
    answers.append({"tokens": said.model_extra["token_ids"], "logprobs": probabilities})
    print(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1])
