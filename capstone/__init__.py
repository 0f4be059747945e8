"""All of it on GPT-2 124M: a training system, and its step made fast rung by rung."""
