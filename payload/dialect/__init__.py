"""The dialect `gpt`: ops of transformers that payloads are written in, an op a class."""
